/* SPDX-License-Identifier: Apache-2.0
 *
 * WAV files, and the way to libsndfile for other kinds (see audio_file.h).
 */
#include "data/audio_file.h"

#include <dlfcn.h>
#include <string.h>

#include "base/arena.h"

void crn_audio_free(crn_audio *a) {
  crn_free(a->samples);
  *a = (crn_audio){0};
}

/* ---- WAV ---- */

static uint64_t little(const unsigned char *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

typedef struct wav_format {
  unsigned tag, channels, bits;
  int64_t rate;
} wav_format;

/* One sample in [-1, 1): integers are divided by 2^(bits-1); 8 bits are unsigned. */
static double sample_value(const unsigned char *p, const wav_format *f) {
  if (f->tag == 3 && f->bits == 32) {
    float x;
    memcpy(&x, p, sizeof x);
    return (double)x;
  }
  if (f->tag == 3) {
    double x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  if (f->bits == 8) return ((double)p[0] - 128.0) / 128.0;
  int bytes = (int)f->bits / 8;
  uint64_t raw = little(p, bytes) << (64 - f->bits);
  return (double)(int64_t)raw / 9223372036854775808.0;
}

static crn_status wav_samples(const unsigned char *p, size_t len, const wav_format *f, const char *name, crn_audio *out,
                              crn_err *err) {
  bool known = (f->tag == 1 && (f->bits == 8 || f->bits == 16 || f->bits == 24 || f->bits == 32)) ||
               (f->tag == 3 && (f->bits == 32 || f->bits == 64));
  if (!known || !f->channels || f->rate < 1)
    return crn_fail(err, CRN_E_NOT_IMPLEMENTED, "%s: not implemented: WAV of kind %u with %u bits", name, f->tag,
                    f->bits);
  size_t bytes = f->bits / 8, n = len / bytes / f->channels;
  out->samples = crn_malloc((n * f->channels + 1) * sizeof(double));
  if (!out->samples) return crn_err_memory(err);
  for (size_t i = 0; i < n * f->channels; i++) out->samples[i] = sample_value(p + i * bytes, f);
  out->n = (int64_t)n;
  out->channels = (int)f->channels;
  out->rate = f->rate;
  return CRN_OK;
}

static crn_status decode_wav(const unsigned char *p, size_t len, const char *name, crn_audio *out, crn_err *err) {
  wav_format f = {0};
  size_t at = 12;
  while (len - at >= 8) {
    size_t size = (size_t)little(p + at + 4, 4), rest = len - at - 8;
    const unsigned char *body = p + at + 8;
    if (!memcmp(p + at, "fmt ", 4) && size >= 16 && size <= rest) {
      f = (wav_format){(unsigned)little(body, 2), (unsigned)little(body + 2, 2), (unsigned)little(body + 14, 2),
                       (int64_t)little(body + 4, 4)};
      if (f.tag == 0xfffe && size >= 26) f.tag = (unsigned)little(body + 24, 2); /* extensible */
    } else if (!memcmp(p + at, "data", 4)) {
      return wav_samples(body, size < rest ? size : rest, &f, name, out, err); /* a stream has no true size */
    }
    if (size >= rest) break;
    at += 8 + size + (size & 1);
    if (at > len) break;
  }
  return crn_fail(err, CRN_E_FORMAT, "%s: the WAV file has no data", name);
}

/* ---- libsndfile, by its public interface ---- */

typedef struct sf_info { /* SF_INFO */
  int64_t frames;
  int samplerate, channels, format, sections, seekable;
} sf_info;

typedef struct sf_virtual { /* SF_VIRTUAL_IO */
  int64_t (*length)(void *user);
  int64_t (*seek)(int64_t offset, int whence, void *user);
  int64_t (*read)(void *to, int64_t n, void *user);
  int64_t (*write)(const void *from, int64_t n, void *user);
  int64_t (*tell)(void *user);
} sf_virtual;

typedef struct memory_file {
  const char *p;
  int64_t len, at;
} memory_file;

static int64_t mem_length(void *u) { return ((memory_file *)u)->len; }
static int64_t mem_tell(void *u) { return ((memory_file *)u)->at; }
static int64_t mem_write(const void *from, int64_t n, void *u) {
  (void)from, (void)n, (void)u;
  return 0;
}
static int64_t mem_seek(int64_t offset, int whence, void *u) {
  memory_file *m = u;
  int64_t to = whence == 0 ? offset : whence == 1 ? m->at + offset : m->len + offset;
  if (to >= 0 && to <= m->len) m->at = to;
  return m->at;
}
static int64_t mem_read(void *to, int64_t n, void *u) {
  memory_file *m = u;
  if (n > m->len - m->at) n = m->len - m->at;
  memcpy(to, m->p + m->at, (size_t)n);
  m->at += n;
  return n;
}

typedef struct sndfile {
  void *(*open_virtual)(sf_virtual *, int mode, sf_info *, void *user);
  int64_t (*readf_double)(void *, double *, int64_t);
  int (*close)(void *);
  const char *(*strerror)(void *);
} sndfile;

static bool load_sndfile(sndfile *lib) {
  void *so = dlopen("libsndfile.so.1", RTLD_NOW); /* opening it again gives the same one */
  if (!so) return false;
  *(void **)&lib->open_virtual = dlsym(so, "sf_open_virtual");
  *(void **)&lib->readf_double = dlsym(so, "sf_readf_double");
  *(void **)&lib->close = dlsym(so, "sf_close");
  *(void **)&lib->strerror = dlsym(so, "sf_strerror");
  return lib->open_virtual && lib->readf_double && lib->close && lib->strerror;
}

static crn_status read_frames(sndfile *lib, void *snd, const sf_info *info, const char *name, crn_audio *out,
                              crn_err *err) {
  int64_t cap = 0;
  out->channels = info->channels;
  out->rate = info->samplerate;
  for (;;) { /* the stated number of frames may be wrong */
    if (out->n == cap) {
      cap = cap ? 2 * cap : 65536;
      double *grown = crn_realloc(out->samples, (size_t)cap * (size_t)info->channels * sizeof *grown);
      if (!grown) return crn_err_memory(err);
      out->samples = grown;
    }
    int64_t got = lib->readf_double(snd, out->samples + out->n * info->channels, cap - out->n);
    if (got <= 0) break;
    out->n += got;
  }
  if (!out->n && info->frames > 0) return crn_fail(err, CRN_E_FORMAT, "%s: %s", name, lib->strerror(snd));
  return CRN_OK;
}

static crn_status decode_other(const char *bytes, size_t len, const char *name, crn_audio *out, crn_err *err) {
  sndfile lib;
  if (!load_sndfile(&lib))
    return crn_fail(err, CRN_E_FILE, "%s: libsndfile.so.1 is needed for audio other than WAV and can't be opened",
                    name);
  memory_file m = {bytes, (int64_t)len, 0};
  sf_virtual io = {mem_length, mem_seek, mem_read, mem_write, mem_tell};
  sf_info info = {0};
  void *snd = lib.open_virtual(&io, 0x10 /* SFM_READ */, &info, &m);
  if (!snd) return crn_fail(err, CRN_E_FORMAT, "%s: %s", name, lib.strerror(NULL));
  crn_status code = CRN_OK;
  if (info.channels < 1 || info.channels > 1024 || info.samplerate < 1)
    code = crn_fail(err, CRN_E_FORMAT, "%s: %d channels at %d Hz", name, info.channels, info.samplerate);
  if (code == CRN_OK) code = read_frames(&lib, snd, &info, name, out, err);
  lib.close(snd);
  return code;
}

crn_status crn_audio_decode(const char *bytes, size_t len, const char *name, crn_audio *out, crn_err *err) {
  *out = (crn_audio){0};
  bool wav = len >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WAVE", 4);
  crn_status code =
      wav ? decode_wav((const unsigned char *)bytes, len, name, out, err) : decode_other(bytes, len, name, out, err);
  if (code != CRN_OK) crn_audio_free(out);
  return code;
}
