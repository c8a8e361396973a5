/* SPDX-License-Identifier: Apache-2.0
 *
 * Python literals: what they mean, where and how wrong ones are refused, and that damaged text never does harm (every
 * cut and many flipped bytes of a text with all forms; run under sanitizers too).
 */
#include "value/value.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static crn_arena arena;

static int free_arena(void **state) {
  (void)state;
  crn_arena_free(&arena);
  return 0;
}

/* The repr of what text is read as. */
static void check(const char *text, const char *want) {
  crn_value *v = NULL;
  crn_err err = {0};
  crn_str s = {0};
  if (crn_v_parse_literal(&arena, text, "cfg", &v, &err) != CRN_OK) fail_msg("%s: %s", text, crn_err_text(&err));
  crn_v_repr(v, &s, 0);
  if (strcmp(crn_str_get(&s), want) != 0) fail_msg("%s: got %s, want %s", text, crn_str_get(&s), want);
  crn_str_free(&s);
}

static void check_refused(const char *text, const char *message) {
  crn_value *v = NULL;
  crn_err err = {0};
  if (crn_v_parse_literal(&arena, text, "cfg", &v, &err) != CRN_E_FORMAT) fail_msg("%s: not refused", text);
  if (strcmp(crn_err_text(&err), message) != 0) fail_msg("%s: got \"%s\"", text, crn_err_text(&err));
  assert_null(v);
  crn_err_clear(&err);
}

static void numbers(void **state) {
  (void)state;
  check("0", "0");
  check("00", "0");
  check("-17", "-17");
  check("+3", "3");
  check("--3", "3");
  check("-True", "-1");
  check("1_000_000", "1000000");
  check("0x1F", "31");
  check("0xff_ff", "65535");
  check("0o17", "15");
  check("0b101", "5");
  check("1.", "1.0");
  check(".5", "0.5");
  check("1_0.5_0", "10.5");
  check("1e3", "1000.0");
  check("1E-2", "0.01");
  check("9223372036854775807", "9223372036854775807");
  check("1e400", "inf");
  check("-inf", "-inf");
  check("float('nan')", "nan");
  check("float('-inf')", "-inf");
  check("float(3)", "3.0");
}

static void arithmetic(void **state) {
  (void)state;
  check("1 + 2 * 3", "7");
  check("(1 + 2) * 3", "9");
  check("2 ** 3 ** 2", "512");
  check("-2 ** 2", "-4");
  check("2 ** -1", "0.5");
  check("7 / 2", "3.5");
  check("4 / 2", "2.0");
  check("7 // 2", "3");
  check("-7 // 2", "-4");
  check("-7 % 3", "2");
  check("7 % -3", "-2");
  check("7.5 // 2", "3.0");
  check("-7.5 // 2", "-4.0");
  check("-7.5 % 2", "0.5");
  check("1 - 2 - 3", "-4");
  check("40 * 1.5", "60.0");
  check("'a' + 'b'", "'ab'");
  check("[1] + [2]", "[1, 2]");
  check("(1,) + ()", "(1,)");
  check_refused("1 / 0", "cfg:1:6: division by zero");
  check_refused("1 % 0", "cfg:1:6: division by zero");
  check_refused("'a' + 1", "cfg:1:8: + of str and int");
  check_refused("-'a'", "cfg:1:5: sign before a value of type str");
  check_refused("2 ** 63", "cfg:1:8: result of ** out of range (64 bits)");
  check_refused("9223372036854775807 + 1", "cfg:1:24: result of + out of range (64 bits)");
  check_refused("(-9223372036854775807 - 1) // -1", "cfg:1:33: result of // out of range (64 bits)");
  check("(-9223372036854775807 - 1) % -1", "0");
  check_refused("(-8) ** 0.5", "cfg:1:12: not implemented: complex numbers");
}

static void strings(void **state) {
  (void)state;
  check("'a'", "'a'");
  check("\"a\"", "'a'");
  check("'a' \"b\" r'c'", "'abc'");
  check("'''a\n'b' ''c'''", "\"a\\n'b' ''c\"");
  check("\"\"\"x\"\"\"", "'x'");
  check("r'\\d\\'x'", "\"\\\\d\\\\'x\"");
  check("u'x'", "'x'");
  check("Rb'a\\n'", "'a\\\\n'");
  check("f'plain'", "'plain'");
  check("'\\x41\\u00e4\\U0001F600\\101\\0'", "'Aä😀A\\x00'");
  check("'\\a\\b\\f\\v'", "'\\x07\\x08\\x0c\\x0b'");
  check("'\\q'", "'\\\\q'");
  check("'a\\\nb'", "'ab'");
  check_refused("'abc", "cfg:1:1: string without closing quote");
  check_refused("'abc\n'", "cfg:1:1: string without closing quote");
  check_refused("\n '''abc''", "cfg:2:2: string without closing quote");
  check_refused("'\\x4'", "cfg:1:3: \\x needs 2 hexadecimal digits");
  check_refused("'\\ud800'", "cfg:1:3: \\u: no such character");
  check_refused("f'{x}'", "cfg:1:3: not implemented: expressions in f-strings");
}

static void containers(void **state) {
  (void)state;
  check("[ ]", "[]");
  check("[1, 2,]", "[1, 2]");
  check("()", "()");
  check("(1)", "1");
  check("(1,)", "(1,)");
  check("1, 2", "(1, 2)");
  check("1,", "(1,)");
  check("{}", "{}");
  check("set()", "set()");
  check("{1, 1.0, 2}", "{1, 2}");
  check("{'a': 1, 'b': (2,), 'a': 3,}", "{'a': 3, 'b': (2,)}");
  check("# head\n{ # open\n 'a': # key\n 1 }\n# tail", "{'a': 1}");
  check("[1,\r\n\t2\\\n]", "[1, 2]");
  check("[True, False, None]", "[True, False, None]");
  check_refused("", "cfg:1:1: text ends where a value is expected");
  check_refused("[1 2]", "cfg:1:4: expected \",\" or \"]\"");
  check_refused("[1, 2", "cfg:1:6: expected \",\" or \"]\"");
  check_refused("[,]", "cfg:1:2: expected a value, found \",\"");
  check_refused("{'a' 1}", "cfg:1:6: expected \",\" or \"}\"");
  check_refused("{1, 2: 3}", "cfg:1:8: \":\" in a set");
  check_refused("{1: 2, 3}", "cfg:1:9: expected \":\"");
  check_refused("{[1]: 2}", "cfg:1:7: a value of type list can't be a dict's key");
  check_refused("{{1: 2}}", "cfg:1:8: a value of type dict can't be in a set");
  check_refused("[1]\n]", "cfg:2:1: unexpected \"]\" behind the value");
  check_refused("[true]", "cfg:1:2: unknown name \"true\"; did you mean True?");
  check_refused("[os.system('x')]", "cfg:1:12: call of \"os.system\" in a literal");
  check_refused("012", "cfg:1:1: leading zeros in a decimal integer are not allowed");
  check_refused("3j", "cfg:1:1: not implemented: complex numbers");
  check_refused("3abc", "cfg:1:1: invalid number");
  check_refused("0x", "cfg:1:1: invalid number in base 16");
  check_refused("9223372036854775808", "cfg:1:1: integer 9223372036854775808 out of range (64 bits)");
}

static void lines_are_kept(void **state) {
  (void)state;
  crn_value *v = NULL;
  assert_int_equal(crn_v_parse_literal(&arena, "{\n'a': 1,\n'b': '''x\ny''',\n'c': [\n5]}", "cfg", &v, NULL), CRN_OK);
  assert_int_equal(v->line, 1);
  assert_int_equal(crn_v_get(v, "a")->line, 2);
  assert_int_equal(crn_v_get(v, "b")->line, 3);
  assert_int_equal(crn_v_get(v, "c")->line, 5);
  assert_int_equal(crn_v_at(crn_v_get(v, "c"), 0)->line, 6);
}

static void calls_become_dicts(void **state) {
  (void)state;
  crn_value *v = NULL;
  const char *text = "{\n1: EpochData(learningRate=0.03, error={\n'dev_score': float('nan'),\n}),\n2: E(1, x=inf)}";
  assert_int_equal(crn_v_parse_literal_calls(&arena, text, "lr", &v, NULL), CRN_OK);
  crn_str s = {0};
  crn_v_repr(v, &s, 0);
  assert_string_equal(crn_str_get(&s), "{1: {'__call__': 'EpochData', '__args__': [], 'learningRate': 0.03, 'error': "
                                       "{'dev_score': nan}}, 2: {'__call__': 'E', '__args__': [1], 'x': inf}}");
  crn_str_free(&s);
  check_refused("E(1)", "cfg:1:3: call of \"E\" in a literal");
}

static void depth_is_limited(void **state) {
  (void)state;
  enum { DEEP = 100000 };
  char *text = malloc(DEEP + 1);
  assert_non_null(text);
  text[DEEP] = '\0';
  static const char *const patterns[] = {"[", "(", "{", "[(", "{1:", "-", "2**", "f(", "float(", "[-"};
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    size_t n = strlen(patterns[k]);
    for (size_t i = 0; i < DEEP; i++) text[i] = patterns[k][i % n];
    crn_value *v = NULL;
    assert_int_equal(crn_v_parse_literal_calls(&arena, text, "deep", &v, NULL), CRN_E_FORMAT);
    crn_arena_reset(&arena);
  }
  free(text);
  char nested[2 * CRN_V_MAX_DEPTH + 1] = {0};
  memset(nested, '[', CRN_V_MAX_DEPTH);
  memset(nested + CRN_V_MAX_DEPTH, ']', CRN_V_MAX_DEPTH);
  crn_value *v = NULL;
  assert_int_equal(crn_v_parse_literal(&arena, nested, "deep", &v, NULL), CRN_OK);
}

static void locale_does_not_matter(void **state) {
  (void)state;
  const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
  for (size_t i = 0; i < 3; i++) {
    if (!setlocale(LC_NUMERIC, commas[i])) continue; /* not installed everywhere */
    check("0.125", "0.125");
    setlocale(LC_NUMERIC, "C");
  }
  check("0.125", "0.125");
}

/* All forms in one text; damaged in every way it must be read or refused, with a message, and nothing else. */
static const char everything[] =
    "{'a': [1, -2.5e3, 0x1f, True, None], 'b': (1,), \"c\": {1, 2}, # comment\n"
    "'''d''': r'\\x' 'y\\n\\u00e4\\x41\\101', 3: float('nan'), (1, 2): 2 ** 3 // 2 % 3 / 4, 'e': E(x=1, y=[inf])}";

static void read_damaged(const char *text) {
  crn_err err = {0};
  crn_value *v = NULL;
  crn_status status = crn_v_parse_literal_calls(&arena, text, "damaged", &v, &err);
  assert_true(status == CRN_OK || status == CRN_E_FORMAT);
  assert_int_equal(status == CRN_OK, v != NULL);
  assert_int_equal(status == CRN_OK, crn_err_text(&err)[0] == '\0');
  crn_err_clear(&err);
  crn_arena_reset(&arena);
}

static void damaged_text_is_harmless(void **state) {
  (void)state;
  size_t n = strlen(everything);
  for (size_t cut = 0; cut <= n; cut++) {
    char *text = malloc(cut + 1); /* exact size, so that reading beyond is seen */
    assert_non_null(text);
    memcpy(text, everything, cut);
    text[cut] = '\0';
    read_damaged(text);
    free(text);
  }
  char *text = malloc(n + 1);
  assert_non_null(text);
  static const char swaps[] = "'\"\\[](){},:#*/%-+.0x9eErbfu_\n\x80\xff";
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < sizeof swaps; k++) { /* with the NUL */
      memcpy(text, everything, n + 1);
      text[i] = swaps[k];
      read_damaged(text);
    }
    memmove(text, everything, n + 1);
    memmove(text + i, text + i + 1, n - i);
    read_damaged(text);
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(numbers, free_arena),
      cmocka_unit_test_teardown(arithmetic, free_arena),
      cmocka_unit_test_teardown(strings, free_arena),
      cmocka_unit_test_teardown(containers, free_arena),
      cmocka_unit_test_teardown(lines_are_kept, free_arena),
      cmocka_unit_test_teardown(calls_become_dicts, free_arena),
      cmocka_unit_test_teardown(depth_is_limited, free_arena),
      cmocka_unit_test_teardown(locale_does_not_matter, free_arena),
      cmocka_unit_test_teardown(damaged_text_is_harmless, free_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
