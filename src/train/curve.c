/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning curves as SVG: one panel for scores, one for errors, one for the learning rate, one above the other over the
 * same epochs. A line's colour tells the data set, its dashes the loss; the legend stands beside each panel. Values
 * that aren't finite leave a gap. An axis is logarithmic when its values are positive and span more than a factor 30.
 */
#include "train/curve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { WIDTH = 980, LEFT = 78, PLOT = 560, HEAD = 60, PANEL = 200, RATE_PANEL = 110, GAP = 38, FOOT = 46 };
enum { MAX_SERIES = 12, MAX_TICKS = 16 };

typedef struct series {
  const char *key;  /* of the table; NULL: the learning rate */
  const char *data; /* start of the key: name of the data set */
  size_t data_len;
  const char *loss; /* rest of the key: name of the loss, "" if there is one only */
} series;

typedef struct panel {
  const char *title;
  series lines[MAX_SERIES];
  int n, left_out;
  double lo, hi; /* of the axis; logarithms if log_scale */
  bool log_scale;
  double top, height; /* y of the upper edge */
} panel;

typedef struct picture {
  const crn_lr_table *table;
  crn_str *out;
  double first, last; /* epochs */
} picture;

/* ---- what is drawn ------------------------------------------------------------------------------------------------
 */

/* Splits "dev_score_output" at "_score". False if the key is of another kind. */
static bool split_key(const char *key, const char *kind, series *s) {
  const char *at = strstr(key, kind);
  size_t n = strlen(kind);
  if (!at || at == key || crn_lr_key_is_meta(key) || (at[n] && at[n] != '_')) return false;
  *s = (series){.key = key, .data = key, .data_len = (size_t)(at - key), .loss = at[n] ? at + n + 1 : ""};
  return true;
}

static void collect(panel *p, const crn_lr_table *t, const char *kind) {
  for (size_t i = 0; i < t->n; i++)
    for (size_t k = 0; k < t->epochs[i].n_scores; k++) {
      series s;
      bool known = !split_key(t->epochs[i].scores[k].key, kind, &s);
      if (known || crn_ends_with(s.key, ":exp")) continue; /* its logarithm is drawn already */
      for (int j = 0; j < p->n && !known; j++) known = strcmp(p->lines[j].key, s.key) == 0;
      if (known) continue;
      if (p->n < MAX_SERIES)
        p->lines[p->n++] = s;
      else
        p->left_out++;
    }
}

static double value_at(const crn_lr_epoch *e, const series *s) {
  if (!s->key) return e->n_scores ? e->lr : NAN; /* rates of epochs that haven't been trained are not drawn */
  const crn_lr_score *score = crn_lr_epoch_get(e, s->key);
  return score ? score->value : NAN;
}

static double scaled(const panel *p, double v) { return p->log_scale ? (v > 0 ? log10(v) : NAN) : v; }

static void choose_scale(panel *p, const crn_lr_table *t) {
  double lo = INFINITY, hi = -INFINITY;
  for (int j = 0; j < p->n; j++)
    for (size_t i = 0; i < t->n; i++) {
      double v = value_at(&t->epochs[i], &p->lines[j]);
      if (!isfinite(v)) continue;
      lo = fmin(lo, v);
      hi = fmax(hi, v);
    }
  if (!(lo <= hi)) lo = 0, hi = 1;
  p->log_scale = lo > 0 && hi / lo > 30;
  if (p->log_scale)
    lo = log10(lo), hi = log10(hi);
  else if (lo > 0 && lo < 0.5 * hi)
    lo = 0;
  double margin = hi > lo ? 0.06 * (hi - lo) : fmax(fabs(hi), 1e-12) * 0.1;
  p->hi = hi + margin;
  p->lo = lo == 0 && !p->log_scale ? 0 : lo - margin;
}

int crn_curve_ticks(double lo, double hi, int wanted, bool whole, double ticks[16]) {
  static const double steps[] = {1, 2, 5, 10};
  if (!(hi > lo) || !isfinite(lo) || !isfinite(hi) || wanted < 1) return 0;
  double raw = (hi - lo) / wanted, power = pow(10, floor(log10(raw))), step = 10 * power;
  for (int i = 3; i >= 0; i--)
    if (steps[i] * power >= raw * 0.999) step = steps[i] * power;
  if (whole && step < 1) step = 1;
  int n = 0;
  for (double k = ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && n < MAX_TICKS; k++) ticks[n++] = k * step;
  return n;
}

/* ---- SVG ------------------------------------------------------------------------------------------------------------
 */

static void add_escaped(crn_str *out, const char *text, size_t n) {
  for (size_t i = 0; i < n && text[i]; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '&')
      crn_str_add(out, "&amp;");
    else if (c == '<')
      crn_str_add(out, "&lt;");
    else if (c == '>')
      crn_str_add(out, "&gt;");
    else
      crn_str_addc(out, c < 32 ? ' ' : (char)c);
  }
}

static double x_of(const picture *pic, double epoch) {
  double span = pic->last - pic->first;
  return span > 0 ? LEFT + PLOT * (epoch - pic->first) / span : LEFT + PLOT / 2.0;
}

static double y_of(const panel *p, double scaled_value) {
  return p->top + p->height * (p->hi - scaled_value) / (p->hi - p->lo);
}

static const char *colour_of(const series *s) {
  static const struct {
    const char *data, *colour;
  } known[] = {{"train", "#1f6fb4"}, {"dev", "#d1495b"}, {"eval", "#2e8b57"}, {"devtrain", "#8e6bbf"}};
  static const char *const others[] = {"#c9822b", "#4a9aa8", "#7a6a53", "#b0558f"};
  if (!s->key) return "#444444";
  unsigned sum = 0;
  for (size_t i = 0; i < s->data_len; i++) sum = sum * 31 + (unsigned char)s->data[i];
  for (size_t i = 0; i < 4; i++)
    if (strlen(known[i].data) == s->data_len && memcmp(known[i].data, s->data, s->data_len) == 0)
      return known[i].colour;
  return others[sum % 4];
}

/* Losses of a panel in the order of their first line get solid, dashed, … lines. */
static const char *dashes_of(const panel *p, int line) {
  static const char *const dashes[] = {"", "7 3", "2 3", "9 3 2 3", "14 4"};
  int index = 0;
  for (int j = 0; j < line; j++) {
    bool first = true;
    for (int k = 0; k < j; k++) first = first && strcmp(p->lines[k].loss, p->lines[j].loss) != 0;
    if (strcmp(p->lines[j].loss, p->lines[line].loss) == 0) break;
    index += first;
  }
  return dashes[index % 5];
}

static void add_tick_label(crn_str *out, const panel *p, double tick) {
  double v = p->log_scale ? pow(10, tick) : tick;
  crn_str_addf(out, "%.4g", fabs(v) < 1e-12 * fmax(fabs(p->lo), fabs(p->hi)) ? 0.0 : v);
}

/* Ticks of a logarithmic axis: 1, 2, 5 of each decade, or the decades if these are many. */
static int log_ticks(const panel *p, double ticks[MAX_TICKS]) {
  static const double in_decade[] = {1, 2, 5};
  int step = p->hi - p->lo > 3 ? 3 : 1, n = 0;
  double decades = ceil((p->hi - p->lo) / MAX_TICKS);
  for (double d = floor(p->lo); d <= p->hi; d += decades)
    for (int k = 0; k < 3; k += step) {
      double t = d + log10(in_decade[k]);
      if (t >= p->lo && t <= p->hi && n < MAX_TICKS) ticks[n++] = t;
    }
  return n;
}

static void draw_frame(const picture *pic, const panel *p, bool label_epochs) {
  double ticks[MAX_TICKS];
  crn_str *out = pic->out;
  int n = p->log_scale ? log_ticks(p, ticks) : crn_curve_ticks(p->lo, p->hi, p->height < PANEL ? 3 : 5, false, ticks);
  crn_str_addf(out, "<text x=\"%d\" y=\"%.1f\" class=\"t\">%s%s</text>\n", LEFT, p->top - 8, p->title,
               p->log_scale ? " (logarithmic)" : "");
  for (int i = 0; i < n; i++) {
    double y = y_of(p, ticks[i]);
    crn_str_addf(out, "<path d=\"M%d %.1fH%d\" class=\"g\"/><text x=\"%d\" y=\"%.1f\" class=\"r\">", LEFT, y,
                 LEFT + PLOT, LEFT - 8, y + 4);
    add_tick_label(out, p, ticks[i]);
    crn_str_add(out, "</text>\n");
  }
  n = crn_curve_ticks(pic->first, pic->last, 10, true, ticks);
  if (n == 0) ticks[n++] = pic->first;
  for (int i = 0; i < n; i++) {
    double x = x_of(pic, ticks[i]);
    crn_str_addf(out, "<path d=\"M%.1f %.1fv5\" class=\"a\"/>", x, p->top + p->height);
    if (label_epochs)
      crn_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"m\">%.0f</text>", x, p->top + p->height + 19, ticks[i]);
  }
  crn_str_addf(out, "\n<path d=\"M%d %.1fv%.1fh%d\" class=\"a\"/>\n", LEFT, p->top, p->height, PLOT);
}

/* A point where the line would be invisible: no drawn neighbour. */
static void draw_line(const picture *pic, const panel *p, int line) {
  const crn_lr_table *t = pic->table;
  const series *s = &p->lines[line];
  const char *colour = colour_of(s), *dashes = dashes_of(p, line);
  crn_str path = {0};
  bool pen_down = false;
  for (size_t i = 0; i < t->n; i++) {
    double v = scaled(p, value_at(&t->epochs[i], s));
    if (!isfinite(v)) {
      pen_down = false;
      continue;
    }
    double x = x_of(pic, (double)t->epochs[i].epoch), y = y_of(p, v);
    if (pen_down && !s->key)
      crn_str_addf(&path, "H%.1fV%.1f", x, y); /* the rate changes between epochs */
    else
      crn_str_addf(&path, "%s%.1f %.1f", pen_down ? "L" : "M", x, y);
    if (t->n <= 40 || !pen_down)
      crn_str_addf(pic->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.4\" fill=\"%s\"/>", x, y, colour);
    pen_down = true;
  }
  if (path.len) {
    crn_str_addf(pic->out, "\n<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"", crn_str_get(&path),
                 colour);
    if (*dashes) crn_str_addf(pic->out, " stroke-dasharray=\"%s\"", dashes);
    crn_str_add(pic->out, "/>\n");
  }
  if (!crn_str_ok(&path)) pic->out->failed = true;
  crn_str_free(&path);
}

/* Last value that was drawn, for the legend. */
static double last_value(const picture *pic, const series *s) {
  for (size_t i = pic->table->n; i-- > 0;) {
    double v = value_at(&pic->table->epochs[i], s);
    if (isfinite(v)) return v;
  }
  return NAN;
}

static void draw_legend(const picture *pic, const panel *p) {
  crn_str *out = pic->out;
  double x = LEFT + PLOT + 18;
  for (int j = 0; j < p->n; j++) {
    const series *s = &p->lines[j];
    double y = p->top + 10 + 16 * j;
    crn_str_addf(out, "<path d=\"M%.1f %.1fh24\" stroke=\"%s\" stroke-width=\"2.4\" stroke-dasharray=\"%s\"/>", x, y,
                 colour_of(s), *dashes_of(p, j) ? dashes_of(p, j) : "none");
    crn_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 31, y + 4);
    if (s->key)
      add_escaped(out, s->data, s->data_len);
    else
      crn_str_add(out, "rate");
    if (s->key && *s->loss) crn_str_add(out, " ");
    if (s->key) add_escaped(out, s->loss, strlen(s->loss) < 18 ? strlen(s->loss) : 18);
    crn_str_addf(out, " <tspan class=\"v\">%.4g</tspan></text>\n", last_value(pic, s));
  }
  if (p->left_out)
    crn_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"v\">and %d more</text>\n", x, p->top + 14.0 + 16 * p->n,
                 p->left_out);
}

static void draw_head(const picture *pic, const char *title, int height) {
  crn_str *out = pic->out;
  crn_str_addf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
               "<style>text{font:12px sans-serif;fill:#333}.h{font-size:15px;font-weight:bold}.t{font-weight:bold}"
               ".r{text-anchor:end}.m{text-anchor:middle}.v{fill:#888}.g{stroke:#e4e4e4}.a{stroke:#666;fill:none}"
               "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
               WIDTH, height, WIDTH, height);
  if (!title) return;
  crn_str_addf(out, "<text x=\"%d\" y=\"22\" class=\"h\">", LEFT);
  add_escaped(out, title, strlen(title));
  crn_str_add(out, "</text>\n");
}

/* Epochs that have been trained, or all if none has. */
static void choose_epochs(picture *pic) {
  const crn_lr_table *t = pic->table;
  pic->first = (double)t->epochs[0].epoch;
  pic->last = (double)t->epochs[t->n - 1].epoch;
  for (size_t i = t->n; i-- > 0;)
    if (t->epochs[i].n_scores) {
      pic->last = (double)t->epochs[i].epoch;
      return;
    }
}

crn_status crn_curve_svg(const crn_lr_table *table, const char *title, crn_str *out, crn_err *err) {
  if (table->n == 0) return crn_fail(err, CRN_E_DATA, "learning curve: the learning-rate table has no epoch");
  picture pic = {.table = table, .out = out};
  panel panels[3] = {{.title = "score", .height = PANEL},
                     {.title = "error", .height = PANEL},
                     {.title = "learning rate", .height = RATE_PANEL, .n = 1}};
  panels[2].lines[0] = (series){.loss = "", .data = ""};
  collect(&panels[0], table, "_score");
  collect(&panels[1], table, "_error");
  choose_epochs(&pic);
  int above = (panels[0].n > 0) + (panels[1].n > 0), height = HEAD + above * (PANEL + GAP) + RATE_PANEL + FOOT;
  draw_head(&pic, title, height);
  double top = HEAD;
  for (int i = 0; i < 3; i++) {
    panel *p = &panels[i];
    if (p->n == 0) continue;
    p->top = top;
    top += p->height + GAP;
    choose_scale(p, table);
    draw_frame(&pic, p, i == 2);
    for (int j = 0; j < p->n; j++) draw_line(&pic, p, j);
    draw_legend(&pic, p);
  }
  crn_str_addf(out, "<text x=\"%d\" y=\"%d\" class=\"m\">epoch</text>\n</svg>\n", LEFT + PLOT / 2, height - 8);
  return crn_str_ok(out) ? CRN_OK : crn_err_memory(err);
}
