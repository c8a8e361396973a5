/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network is, as text and as a graph; and a look at a config's net dict, layer by layer, for everything that
 * can't be built, whether or not the network can.
 */
#ifndef CRN_NET_REPORT_H
#define CRN_NET_REPORT_H

#include "net/net.h"

/* describe.c: sections of lines, each ending in a newline */
void crn_net_describe_data(const crn_net *net, crn_str *out);   /* extern data and which keys are used */
void crn_net_describe_layers(const crn_net *net, crn_str *out); /* class, name, dim, template; extra nets too */
void crn_net_describe_loops(const crn_net *net, crn_str *out);  /* which layers run inside of each loop */
void crn_net_describe_losses(const crn_net *net, crn_str *out);
void crn_net_describe_params(const crn_net *net, bool each, crn_str *out); /* numbers; each: names and shapes too */
/* Graphviz: a box a layer, a cluster a loop or sub network; dashed edges come from the step before. */
void crn_net_graph(const crn_net *net, crn_str *out);

/* check.c: call fn with a message for each thing in the config's network that isn't known or not implemented: classes,
 * options, units, losses and their options, activations, expressions; and, if wanted, Python functions. */
crn_status crn_net_check(const crn_value *config, bool functions, crn_net_problem fn, void *user, crn_err *err);

#endif
