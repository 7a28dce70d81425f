"""Scion and its kin as one torch.optim.Optimizer for all parameters of a model.

    import libscion.torch
    table = libscion.torch.roles(model)              # role, norm and radius of every parameter; print(table)
    opt = libscion.torch.Scion(table, lr=2**-5)      # no second optimizer for embeddings, biases and the head
"""
from . import functional
from ._optimizer import Scion
from ._roles import Roles, roles

__all__ = ["Scion", "Roles", "roles", "functional"]
