/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as built for one mode: layers in scopes, in the order in which they run, over a shared store of parameters.
 *
 * Everything is flat: sub networks, loops and extra nets are scopes (where names are looked up), bodies say where a layer
 * runs (the root once per run, a loop once per step). A network is constant after construction; runs happen in sessions
 * (exec.h), any number of them in parallel.
 */
#ifndef CRN_NET_NET_H
#define CRN_NET_NET_H

#include "base/map.h"
#include "layer/layer.h"
#include "loss/loss.h"

typedef struct crn_scope crn_scope;
typedef struct crn_body crn_body;
typedef struct crn_net crn_net;
typedef struct crn_loop crn_loop;

/* ---- parameters ----------------------------------------------------------------------------------------------------- */

struct crn_param {
  const char *path; /* "output/rec/s/rec/lstm_cell/kernel" */
  crn_param_spec spec;
  crn_storage st;       /* data owned by the store; float parameters in the store's real type */
  crn_dtype dtype;
  int64_t size;         /* elements */
  const char *owner;    /* path of the layer that made it */
  bool initialised;     /* values were set or drawn */
  bool preloaded;       /* by preload_from_files: the main load leaves it alone */
  double L2;            /* of the layer that made it */
  const crn_value *updater_opts; /* of the layer that made it, or NULL */
};

typedef struct crn_store { /* parameters by path, shared by the networks of a config */
  crn_arena arena;
  crn_map by_path;
  crn_dtype real; /* CRN_F32, or CRN_F64 in tests */
  int64_t global_step;
} crn_store;

crn_store *crn_store_new(crn_dtype real);
void crn_store_free(crn_store *s);
crn_param *crn_store_find(const crn_store *s, const char *path);
/* Values from / to a plain array of dtype (converted). Shapes must agree. */
crn_status crn_param_set(crn_param *p, crn_dtype dtype, int rank, const int64_t *shape, const void *data, crn_err *err);
/* Whether an initialiser of a config is understood. */
crn_status crn_initialiser_check(crn_arena *a, const crn_value *v, crn_err *err);
/* Draw initial values of every parameter that has none (C5), reproducible by seed and name. */
crn_status crn_store_init_values(crn_store *s, uint64_t seed, crn_err *err);
/* For forward and search: from now on runs only read the values, so that matrices may be kept packed only (weights.h).
 * Called before the first run; loading other values afterwards is allowed. */
void crn_store_read_only(crn_store *s);

/* ---- scopes and bodies ---------------------------------------------------------------------------------------------- */

typedef enum crn_scope_kind {
  CRN_SCOPE_ROOT,
  CRN_SCOPE_EXTRA, /* same dict under other flags */
  CRN_SCOPE_SUB,   /* sub network, masked unit, branch */
  CRN_SCOPE_LOOP,  /* inside of a loop, one step */
  CRN_SCOPE_MOVED  /* layers of a loop that run outside of it, on all frames */
} crn_scope_kind;

struct crn_scope {
  crn_scope_kind kind;
  crn_scope *parent; /* where "base:" leads; NULL for the root */
  crn_net *net;
  crn_layer *owner;         /* the layer whose net this is */
  const char *path;         /* of its layers: "" or "output/" */
  const char *param_path;   /* of their parameters: "" or "output/rec/" */
  const crn_value *dict;    /* net dict */
  const char *extra_prefix; /* "extra.search", … or NULL */
  bool search, train, eval;
  bool trainable;
  crn_map layers;           /* name -> crn_layer* (also "prev:x", "data:KEY", …) */
  crn_body *body;
  crn_layer *data;          /* what "data" means in a SUB scope */
  crn_loop *loop;           /* LOOP, MOVED and SUB scopes inside of them */
  crn_layer *mask_owner;    /* masked_computation around, or NULL */
  crn_scope *twin;          /* LOOP <-> MOVED */
  /* What a name means in a SUB scope without net dict (masked units, branches). */
  crn_status (*get)(crn_build *b, crn_scope *scope, const char *name, const crn_layer *asker, const char *option,
                    crn_layer **out);
};

struct crn_body { /* layers in the order in which they run */
  crn_layer **order;
  int n, cap;
  crn_body *outer;
  crn_loop *loop; /* NULL: root */
  int index;
};

typedef enum crn_place { CRN_IN_LOOP, CRN_MOVED_INPUT, CRN_MOVED_OUTPUT, CRN_UNUSED } crn_place;

struct crn_loop {
  crn_layer *rec;    /* the layer as named */
  crn_layer *runner; /* internal layer that runs the steps; NULL when everything moved out */
  crn_scope *inside, *moved;
  crn_body body;
  const crn_dim *time_dim;
  crn_layer *source;      /* concatenated source of the loop, or NULL */
  crn_layer *len_layer;   /* whose axis time_dim gives the lengths, or NULL: unknown until it ran */
  int len_axis;
  bool unknown_len;
  bool include_eos;
  crn_layer *end;         /* in the loop, or NULL */
  crn_map places;         /* name -> crn_place+1 */
  crn_layer **carried;    /* "prev:" wrappers */
  int n_carried;
  crn_layer **kept;       /* loop layers whose outputs are accumulated */
  int n_kept;
  crn_layer **sliced;     /* "unstack" wrappers */
  int n_sliced;
  crn_layer *last_choice; /* the step's last searching choice, or NULL */
  struct crn_max_len *max_len; /* limit of an unknown length (loop_limit.c), or NULL */
  crn_layer *max_seq_len_via;
  crn_layer *result;      /* what the rec layer passes on */
  struct crn_loop_roots *roots; /* layers inside that are wanted, once references are made (loop_build.c) */
  bool waits;             /* in construction: for a layer of the loop around */
  bool placed;            /* inside, places and runner are made */
};

/* ---- network -------------------------------------------------------------------------------------------------------- */

typedef struct crn_extern { /* external data */
  const char *key;
  crn_tmpl t;
  crn_layer *layer; /* wrapper, made when used */
  bool used;
  bool declared_available; /* available_for_inference as stated */
} crn_extern;

struct crn_net {
  crn_arena arena;
  crn_dims dims;
  crn_err *err;
  const crn_log *log;
  const crn_value *config; /* dict of config keys */
  crn_store *store;
  int version;
  bool train, eval, search;
  bool records; /* a layer gives gradients: runs write a tape whatever the mode */
  crn_scope *root;
  crn_map extras;        /* prefix -> crn_scope* */
  crn_extern *externs;
  int n_externs, cap_externs;
  const char *default_target;
  crn_layer **layers;    /* by index */
  int n_layers, cap_layers;
  crn_body body;
  crn_body **bodies;     /* of loops */
  int n_bodies, cap_bodies;
  crn_scope **scopes;    /* all */
  int n_scopes, cap_scopes;
  crn_loss **losses;     /* in order of their names */
  int n_losses, cap_losses;
  crn_param **params;    /* in the network's order, each once */
  bool *trainable;       /* parallel to params */
  int n_params;
};

typedef struct crn_net_mode {
  bool train;  /* train flag */
  bool eval;   /* losses are computed */
  bool search;
} crn_net_mode;

/* Build the network of a config (dict with "network", "extern_data" or "num_inputs"/"num_outputs", "target",
 * "behavior_version", …). config and store must outlive it. On failure *out is NULL and err tells. */
crn_status crn_net_build(const crn_value *config, crn_net_mode mode, crn_store *store, const crn_log *log,
                         crn_net **out, crn_err *err);
/* The same, but faults don't end it: each is told to fn (some twice), construction goes on as far as it can, and *out is
 * NULL in the end. Fails only if memory is out. */
typedef void (*crn_net_problem)(void *user, const char *text);
crn_status crn_net_build_telling(const crn_value *config, crn_net_mode mode, crn_store *store, const crn_log *log,
                                 crn_net_problem fn, void *user, crn_net **out, crn_err *err);
void crn_net_free(crn_net *net);

/* Layer by full path ("enc", "output/s", "extra.search:x"); NULL if it was not built. */
crn_layer *crn_net_find(const crn_net *net, const char *path);
crn_extern *crn_net_extern(const crn_net *net, const char *key);
/* Layer that stands for the output: "output", else the only output layer; NULL and a message otherwise. */
crn_layer *crn_net_default_output(crn_net *net);

#endif
