/* Shared by the tests of single operators' laws: runs a case by name, at chosen sizes, forward and backward. */
#ifndef SCION_TESTS_OP_LAW_CASES_H
#define SCION_TESTS_OP_LAW_CASES_H

#include "op_cases.h"
#include "support.h"

static inline op_fixture *fixture(const char *name, op_sizes s)
{
    const op_case *c = op_case_find(name);
    at("%s", name);
    check(c != NULL);
    op_fixture *f = op_fixture_create(c, &s, 2, run_seed());
    check(f != NULL);
    return f;
}

static inline void forward(op_fixture *f)
{
    f->node.op->forward(&f->node, &f->run);
}

static inline void train(op_fixture *f)
{
    op_fixture_train(f);
}

#endif
