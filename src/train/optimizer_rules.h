/* SPDX-License-Identifier: Apache-2.0
 *
 * Update rules of all optimizers on plain arrays, declared for float (…_f32) and double (…_f64).
 */
#ifndef CRN_TRAIN_OPTIMIZER_RULES_H
#define CRN_TRAIN_OPTIMIZER_RULES_H

#include "train/optimizer.h"

#define CRN_RULE_LIST(X)                                                                                               \
  X(gradient_descent)                                                                                                  \
  X(momentum)                                                                                                          \
  X(adam)                                                                                                              \
  X(nadam)                                                                                                             \
  X(nadam_decay)                                                                                                       \
  X(amsgrad)                                                                                                           \
  X(rmsprop)                                                                                                           \
  X(adagrad)                                                                                                           \
  X(adadelta)                                                                                                          \
  X(normalized_sgd)                                                                                                    \
  X(neural_optimizer1)                                                                                                 \
  X(grad_variance_scaled)                                                                                              \
  X(ftrl)                                                                                                              \
  X(proximal_adagrad)                                                                                                  \
  X(proximal_gradient_descent)                                                                                         \
  X(keras_sgd)                                                                                                         \
  X(adamw)                                                                                                             \
  X(adamax)                                                                                                            \
  X(lion)

#define CRN_RULE_DECLARE(name)                                                                                         \
  void crn_rule_##name##_f32(const crn_optimizer_step *s, float *w, const float *g, float *const *slots, int64_t n);   \
  void crn_rule_##name##_f64(const crn_optimizer_step *s, double *w, const double *g, double *const *slots, int64_t n);
CRN_RULE_LIST(CRN_RULE_DECLARE)

#endif
