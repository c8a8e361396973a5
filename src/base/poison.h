/* SPDX-License-Identifier: Apache-2.0
 *
 * For allocators over larger pieces of memory: tell the address sanitizer which parts are not given out, so that it
 * finds overruns and use after free there too. Without the sanitizer these do nothing.
 */
#ifndef CRN_BASE_POISON_H
#define CRN_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define CRN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRN_ASAN 1
#endif
#endif
#ifdef CRN_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define POISON(p, n) ((void)(p))
#define UNPOISON(p, n) ((void)(p))
#endif

#endif
