/* SPDX-License-Identifier: Apache-2.0
 *
 * Construction, internal to net/. Three steps: references (objects and edges, without recursion on the C stack),
 * inference (templates, dependencies first, iterating inside loops), parameters.
 */
#ifndef CRN_NET_BUILD_H
#define CRN_NET_BUILD_H

#include "net/net.h"

struct crn_build {
  crn_net *net;
  crn_err *err;
  crn_layer **pending; /* made, references not looked up yet */
  int n_pending, cap_pending;
  crn_layer **roots;   /* to be built because they are there, not because somebody reads them */
  int n_roots, cap_roots, roots_built;
  crn_net_problem problem; /* NULL: the first fault ends construction */
  void *problem_user;
  int n_problems;
};

/* recover.c: construction that tells every fault.
 * If it is wanted: tell the fault that st stands for, unless it was told already (empty message), and return CRN_OK. l: the
 * layer that has it, or NULL. */
crn_status crn_build_recover(crn_build *b, crn_layer *l, crn_status st);
/* The fault of another layer, which was told, is why this one isn't there either. */
bool crn_build_lost(const crn_build *b, crn_layer *l);
crn_status crn_build_was_told(crn_build *b); /* a failure without a message */

/* scope.c */
crn_scope *crn_scope_new(crn_build *b, crn_scope_kind kind, crn_scope *parent, crn_layer *owner, const crn_value *dict);
/* The layer of that name as seen from scope; asker/option for messages. Makes the object if needed (references are looked
 * up later: crn_build_refs). */
crn_status crn_scope_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                         crn_layer **out);
/* A new layer object from a dict under a name. */
crn_status crn_layer_make(crn_build *b, crn_scope *scope, const char *name, const crn_value *dict, crn_layer **out);
/* An internal layer (wrapper) of class desc in a scope under a name, in a body. */
crn_status crn_layer_make_internal(crn_build *b, crn_scope *scope, crn_body *body, const char *name,
                                   const crn_layer_desc *desc, crn_layer *to, crn_edge_kind edge, crn_layer **out);
/* Layer that gives n sources as one; whoever reads it adds the edge. src stays in use. (wrappers.c) */
crn_status crn_wrap_sources(crn_build *b, crn_scope *s, crn_body *body, const char *name, crn_layer **src, int n,
                            crn_layer **out);
/* No layer reads hypotheses that can't be brought into one order (beam_check.c). */
crn_status crn_build_check_beams(crn_build *b);
/* Whether a state goes from step to step of a loop: not where the layer runs over an axis of its own in each (states.c). */
bool crn_layer_carries_state(const crn_layer *l);
crn_status crn_layer_add_edge(crn_build *b, crn_layer *l, crn_layer *to, crn_edge_kind kind, const char *option);

/* The class that a layer dict names. */
crn_status crn_layer_class_of(crn_build *b, const crn_layer *l, const crn_value *dict, const crn_layer_desc **out);
crn_status crn_layer_class_there(crn_build *b, const crn_layer *l); /* it is implemented */

/* options.c */
crn_status crn_options_parse(crn_build *b, crn_layer *l);      /* plain options, before references */
/* Class and options of a loss (opts may be NULL), as they would be checked for layer l. */
crn_status crn_loss_options_check(crn_build *b, crn_layer *l, const char *name, const crn_value *opts);
const crn_opt *crn_options_of_all(void);    /* options that every layer has, for documentation */
const crn_opt *crn_options_of_inputs(void); /* and those of classes with one concatenated input */
crn_status crn_options_refs(crn_build *b, crn_layer *l);       /* options that name layers, and sources */

/* build.c */
/* Put the layer before a message that says no layer yet; returns st. */
crn_status crn_build_say_layer(crn_build *b, const crn_layer *l, crn_status st);
crn_status crn_build_refs(crn_build *b); /* until nothing is pending */
/* Infer the layer and all that it depends on (outside of loops: complete templates), and append them to their bodies. */
crn_status crn_build_infer(crn_build *b, crn_layer *l);
crn_status crn_layer_infer_once(crn_build *b, crn_layer *l); /* infer + common checks of the output */
crn_status crn_build_add_root(crn_build *b, crn_layer *l);
crn_status crn_body_add(crn_build *b, crn_body *body, crn_layer *l);

/* fuse.c: chains that one operation computes */
crn_status crn_build_fuse(crn_build *b);
/* subnet.c */
crn_status crn_subnet_roots(crn_build *b, crn_scope *s);

/* params.c */
typedef struct crn_reuse {
  crn_layer *layer;            /* all parameters by equal name, or NULL */
  crn_layer *output;           /* layer_output: its value is the parameter, or NULL */
  const char **names;          /* map: parameter */
  crn_layer **layers;          /* map: layer that has it; NULL = create */
  crn_layer **outputs;         /* map: layer whose output it is */
  int n_map;
  bool auto_create_missing;
} crn_reuse;
crn_status crn_reuse_refs(crn_build *b, crn_layer *l);
const char *crn_layer_param_path(crn_build *b, const crn_layer *l); /* "output/rec/s/" */
crn_status crn_build_params(crn_build *b);

/* constraints.c: options spatial_smoothing and darc1 fit the output */
crn_status crn_constraints_check(crn_build *b, crn_layer *l);

/* losses.c */
crn_status crn_layer_make_losses(crn_build *b, crn_layer *l);
/* List the losses of all layers that run, with their names as reported. */
crn_status crn_build_collect_losses(crn_build *b);
/* Name of target i (data key or layer), NULL if it has none. */
const char *crn_target_name(const crn_build *b, const crn_layer *l, int i);
/* The layer that a target name stands for (data wrapper or layer). */
crn_status crn_target_layer(crn_build *b, crn_layer *l, const char *name, crn_layer **out);
/* Output dim that the layer's loss wants for a target dim (ctc: one more). */
crn_status crn_loss_output_dim(crn_build *b, crn_layer *l, const crn_dim **dim, int64_t *size);

/* extern.c */
crn_status crn_net_make_externs(crn_build *b);
crn_status crn_extern_register(crn_build *b, crn_layer *l); /* register_as_extern_data */
crn_status crn_extern_declare(crn_build *b, const crn_layer *l, const char *key, const crn_tmpl *t);

/* loop_build.c */
crn_status crn_loop_make(crn_build *b, crn_layer *rec, const crn_value *unit); /* at object creation */
crn_status crn_loop_infer(crn_build *b, crn_layer *rec);
crn_status crn_loop_get(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                        crn_layer **out, bool *found); /* names special to loops: prev:x, data:source, :i */
crn_status crn_loop_outside_get(crn_build *b, crn_layer *rec, const char *sub, const crn_layer *asker, crn_layer **out);

#endif
