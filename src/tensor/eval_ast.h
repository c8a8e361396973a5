/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of an expression, between its parser and its interpreter.
 */
#ifndef CRN_TENSOR_EVAL_AST_H
#define CRN_TENSOR_EVAL_AST_H

#include "tensor/eval.h"

typedef enum crn_enode_kind {
  CRN_E_CONST,   /* value */
  CRN_E_NAME,    /* text; row: helper or builtin of that name, or NULL */
  CRN_E_ATTR,    /* kids[0].text */
  CRN_E_CALL,    /* kids[0] is called with kids[1 … n_pos], then keywords names[i] = kids[1 + n_pos + i] */
  CRN_E_INDEX,   /* kids[0][kids[1]] */
  CRN_E_UNARY,   /* text kids[0] */
  CRN_E_BINARY,  /* kids[0] text kids[1] */
  CRN_E_COMPARE, /* kids[0] names[0] kids[1] names[1] kids[2] … */
  CRN_E_AND,
  CRN_E_OR,
  CRN_E_NOT,
  CRN_E_COND, /* kids[0] if kids[1] else kids[2] */
  CRN_E_TUPLE,
  CRN_E_LIST,
  CRN_E_SLICE /* kids[0]:kids[1]:kids[2], NULL where absent */
} crn_enode_kind;

typedef struct crn_enode crn_enode;
struct crn_enode {
  crn_enode_kind kind;
  int column; /* in the text, from 1 */
  int depth;  /* of the tree below, itself included */
  const char *text;
  const crn_oprow *row;
  crn_ev value;
  crn_enode **kids;
  int n_kids, n_pos, n_names;
  const char **names;
};

struct crn_eval {
  const char *text;
  crn_enode *root;
};

#define CRN_EVAL_MAX_DEPTH 400

#endif
