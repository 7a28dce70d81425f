"""Norm-constrained LMO optimizers (Scion) for PyTorch and NumPy, by the C library libscion.

    libscion.torch.Scion     a torch.optim.Optimizer: one for all parameters of a model
    libscion.torch.roles     proposes role, norm and radius of every parameter of a module
    libscion.numpy           lmo, norms, polar factor, initialisation, schedules, an optimizer, minimize

Importing libscion alone imports neither torch nor NumPy. https://arxiv.org/abs/2502.07529 has the method.
"""
from ._core import Error, InvalidError, NonFiniteError, StateError, StoppedError, names
from ._library import library as _library

__version__: str = _library.scion_version().decode()

__all__ = ["Error", "InvalidError", "NonFiniteError", "StateError", "StoppedError", "names", "__version__"]
