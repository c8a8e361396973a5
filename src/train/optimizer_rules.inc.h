/* SPDX-License-Identifier: Apache-2.0
 *
 * Update rules, one source for float and double: included by optimizer_f32.c and optimizer_f64.c, which define REAL,
 * RULE(name) (the function's name), SQRT, FABS and POW. Scalars that depend on the step are computed in double; options
 * come in the order of the table in optimizer.c. ORDER OPTIMIZER OPTIONS
 */
#define SIGNATURE(name)                                                                                                \
  void RULE(name)(const crn_optimizer_step *s, REAL *restrict w, const REAL *restrict g, REAL *const *slots, int64_t n)

static REAL sign_of(REAL x) { return (REAL)((x > 0) - (x < 0)); }

/* lr · sqrt(1-b2^t) / (1-b1^t) */
static REAL corrected_rate(const crn_optimizer_step *s) {
  double t = (double)s->t;
  return (REAL)(s->lr * sqrt(1 - pow(s->options[1], t)) / (1 - pow(s->options[0], t)));
}

/* w -= lr·g */
SIGNATURE(gradient_descent) {
  (void)slots;
  REAL lr = (REAL)s->lr;
  for (int64_t i = 0; i < n; i++) w[i] -= lr * g[i];
}

/* a = mu·a + g; w -= lr·a; nesterov: w -= lr·(g + mu·a) */
SIGNATURE(momentum) {
  REAL *restrict a = slots[0];
  REAL lr = (REAL)s->lr, mu = (REAL)s->options[0];
  if (s->options[1] != 0) {
    for (int64_t i = 0; i < n; i++) {
      a[i] = mu * a[i] + g[i];
      w[i] -= lr * (g[i] + mu * a[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    a[i] = mu * a[i] + g[i];
    w[i] -= lr * a[i];
  }
}

/* m = b1·m+(1-b1)g; v = b2·v+(1-b2)g²; w -= corrected rate · m/(sqrt(v)+eps) */
SIGNATURE(adam) {
  REAL *restrict m = slots[0], *restrict v = slots[1];
  REAL b1 = (REAL)s->options[0], b2 = (REAL)s->options[1], c1 = (REAL)(1 - s->options[0]),
       c2 = (REAL)(1 - s->options[1]);
  REAL eps = (REAL)s->options[2], rate = corrected_rate(s);
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    v[i] = b2 * v[i] + c2 * g[i] * g[i];
    w[i] -= rate * m[i] / (SQRT(v[i]) + eps);
  }
}

/* m, v as adam; w -= corrected rate · (b1·m+(1-b1)g)/(sqrt(v)+eps) */
SIGNATURE(nadam) {
  REAL *restrict m = slots[0], *restrict v = slots[1];
  REAL b1 = (REAL)s->options[0], b2 = (REAL)s->options[1], c1 = (REAL)(1 - s->options[0]),
       c2 = (REAL)(1 - s->options[1]);
  REAL eps = (REAL)s->options[2], rate = corrected_rate(s);
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    v[i] = b2 * v[i] + c2 * g[i] * g[i];
    w[i] -= rate * (b1 * m[i] + c1 * g[i]) / (SQRT(v[i]) + eps);
  }
}

/* Rows without gradient: m = b1·m; v = b2·v; w stays. */
SIGNATURE(nadam_decay) {
  (void)w;
  (void)g;
  REAL *restrict m = slots[0], *restrict v = slots[1];
  REAL b1 = (REAL)s->options[0], b2 = (REAL)s->options[1];
  for (int64_t i = 0; i < n; i++) {
    m[i] *= b1;
    v[i] *= b2;
  }
}

/* m, v as adam; x = max(x, v); w -= corrected rate · m/(sqrt(x)+eps) */
SIGNATURE(amsgrad) {
  REAL *restrict m = slots[0], *restrict v = slots[1], *restrict x = slots[2];
  REAL b1 = (REAL)s->options[0], b2 = (REAL)s->options[1], c1 = (REAL)(1 - s->options[0]),
       c2 = (REAL)(1 - s->options[1]);
  REAL eps = (REAL)s->options[2], rate = corrected_rate(s);
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    v[i] = b2 * v[i] + c2 * g[i] * g[i];
    x[i] = x[i] > v[i] ? x[i] : v[i];
    w[i] -= rate * m[i] / (SQRT(x[i]) + eps);
  }
}

/* r = rho·r+(1-rho)g²; a = mu·a + lr·g/sqrt(r+eps); w -= a; centered: q = rho·q+(1-rho)g, sqrt(r-q²+eps) */
SIGNATURE(rmsprop) {
  REAL *restrict r = slots[0], *restrict a = slots[1], *restrict q = slots[2];
  REAL lr = (REAL)s->lr, rho = (REAL)s->options[0], c = (REAL)(1 - s->options[0]), mu = (REAL)s->options[1];
  REAL eps = (REAL)s->options[2];
  bool centered = s->options[3] != 0;
  for (int64_t i = 0; i < n; i++) {
    r[i] = rho * r[i] + c * g[i] * g[i];
    REAL spread = r[i] + eps;
    if (centered) {
      q[i] = rho * q[i] + c * g[i];
      spread = r[i] - q[i] * q[i] + eps;
    }
    a[i] = mu * a[i] + lr * g[i] / SQRT(spread);
    w[i] -= a[i];
  }
}

/* a += g²; w -= lr·g/sqrt(a) */
SIGNATURE(adagrad) {
  REAL *restrict a = slots[0];
  REAL lr = (REAL)s->lr;
  for (int64_t i = 0; i < n; i++) {
    a[i] += g[i] * g[i];
    w[i] -= lr * g[i] / SQRT(a[i]);
  }
}

/* a = rho·a+(1-rho)g²; u = sqrt(d+eps)/sqrt(a+eps)·g; d = rho·d+(1-rho)u²; w -= lr·u */
SIGNATURE(adadelta) {
  REAL *restrict a = slots[0], *restrict d = slots[1];
  REAL lr = (REAL)s->lr, rho = (REAL)s->options[0], c = (REAL)(1 - s->options[0]), eps = (REAL)s->options[1];
  for (int64_t i = 0; i < n; i++) {
    a[i] = rho * a[i] + c * g[i] * g[i];
    REAL u = SQRT(d[i] + eps) / SQRT(a[i] + eps) * g[i];
    d[i] = rho * d[i] + c * u * u;
    w[i] -= lr * u;
  }
}

/* w -= lr·g/sqrt(max(sum g², 1e-12)) */
SIGNATURE(normalized_sgd) {
  (void)slots;
  double norm_sq = s->norm_sq < 1e-12 ? 1e-12 : s->norm_sq; /* nan stays nan */
  REAL lr = (REAL)(s->lr / sqrt(norm_sq));
  for (int64_t i = 0; i < n; i++) w[i] -= lr * g[i];
}

/* m as adam; w -= lr·g·(1 if sign m = sign g, else factor) */
SIGNATURE(neural_optimizer1) {
  REAL *restrict m = slots[0];
  REAL lr = (REAL)s->lr, b1 = (REAL)s->options[0], c1 = (REAL)(1 - s->options[0]), factor = (REAL)s->options[1];
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    w[i] -= lr * g[i] * (sign_of(m[i]) == sign_of(g[i]) ? (REAL)1 : factor);
  }
}

/* m as adam; d = (g-m)²; v = b2·v+(1-b2)d; w -= lr·g·min(v/(d+eps), 1) */
SIGNATURE(grad_variance_scaled) {
  REAL *restrict m = slots[0], *restrict v = slots[1];
  REAL b1 = (REAL)s->options[0], b2 = (REAL)s->options[1], c1 = (REAL)(1 - s->options[0]),
       c2 = (REAL)(1 - s->options[1]);
  REAL eps = (REAL)s->options[2], lr = (REAL)s->lr;
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    REAL d = (g[i] - m[i]) * (g[i] - m[i]);
    v[i] = b2 * v[i] + c2 * d;
    REAL factor = v[i] / (d + eps);
    w[i] -= lr * g[i] * (factor < 1 ? factor : (REAL)1);
  }
}

/* a' = a+g²; z += g - (a'^-p - a^-p)/lr·w; w = (sign z·l1 - z)/(a'^-p/lr + 2·l2) if |z| > l1, else 0; p negative */
SIGNATURE(ftrl) {
  REAL *restrict a = slots[0], *restrict z = slots[1];
  REAL lr = (REAL)s->lr, p = (REAL)-s->options[0], l1 = (REAL)s->options[2], l2 = (REAL)s->options[3];
  for (int64_t i = 0; i < n; i++) {
    REAL next = a[i] + g[i] * g[i], power = POW(next, p);
    z[i] += g[i] - (power - POW(a[i], p)) / lr * w[i];
    a[i] = next;
    w[i] = FABS(z[i]) > l1 ? (sign_of(z[i]) * l1 - z[i]) / (power / lr + 2 * l2) : (REAL)0;
  }
}

/* Soft threshold and shrinkage after a step of size rate. */
static REAL proximal(REAL x, REAL rate, REAL l1, REAL l2) {
  if (l1 > 0) {
    REAL rest = FABS(x) - rate * l1;
    x = sign_of(x) * (rest > 0 ? rest : (REAL)0);
  }
  return x / (1 + rate * l2);
}

/* a += g²; rate = lr/sqrt(a); w = prox(w - rate·g) */
SIGNATURE(proximal_adagrad) {
  REAL *restrict a = slots[0];
  REAL lr = (REAL)s->lr, l1 = (REAL)s->options[1], l2 = (REAL)s->options[2];
  for (int64_t i = 0; i < n; i++) {
    a[i] += g[i] * g[i];
    REAL rate = lr / SQRT(a[i]);
    w[i] = proximal(w[i] - rate * g[i], rate, l1, l2);
  }
}

/* w = prox(w - lr·g) */
SIGNATURE(proximal_gradient_descent) {
  (void)slots;
  REAL lr = (REAL)s->lr, l1 = (REAL)s->options[0], l2 = (REAL)s->options[1];
  for (int64_t i = 0; i < n; i++) w[i] = proximal(w[i] - lr * g[i], lr, l1, l2);
}

/* a = mu·a - lr·g; w += a; nesterov: w += mu·a - lr·g */
SIGNATURE(keras_sgd) {
  REAL *restrict a = slots[0];
  REAL lr = (REAL)s->lr, mu = (REAL)s->options[0];
  bool nesterov = s->options[1] != 0;
  for (int64_t i = 0; i < n; i++) {
    a[i] = mu * a[i] - lr * g[i];
    w[i] += nesterov ? mu * a[i] - lr * g[i] : a[i];
  }
}

/* w -= lr·decay·w, then adam */
SIGNATURE(adamw) {
  REAL keep = (REAL)(1 - s->lr * s->options[3]);
  for (int64_t i = 0; i < n; i++) w[i] *= keep;
  RULE(adam)(s, w, g, slots, n);
}

/* m as adam; u = max(b2·u, |g|); w -= lr/(1-b1^t)·m/(u+eps) */
SIGNATURE(adamax) {
  REAL *restrict m = slots[0], *restrict u = slots[1];
  REAL b1 = (REAL)s->options[0], c1 = (REAL)(1 - s->options[0]), b2 = (REAL)s->options[1], eps = (REAL)s->options[2];
  REAL rate = (REAL)(s->lr / (1 - pow(s->options[0], (double)s->t)));
  for (int64_t i = 0; i < n; i++) {
    m[i] = b1 * m[i] + c1 * g[i];
    REAL size = FABS(g[i]), old = b2 * u[i];
    u[i] = old > size ? old : size;
    w[i] -= rate * m[i] / (u[i] + eps);
  }
}

/* w -= lr·decay·w; w -= lr·sign(b1·m+(1-b1)g); m = b2·m+(1-b2)g */
SIGNATURE(lion) {
  REAL *restrict m = slots[0];
  REAL b1 = (REAL)s->options[0], c1 = (REAL)(1 - s->options[0]), b2 = (REAL)s->options[1],
       c2 = (REAL)(1 - s->options[1]);
  REAL lr = (REAL)s->lr, keep = (REAL)(1 - s->lr * s->options[2]);
  for (int64_t i = 0; i < n; i++) {
    w[i] = keep * w[i] - lr * sign_of(b1 * m[i] + c1 * g[i]);
    m[i] = b2 * m[i] + c2 * g[i];
  }
}
