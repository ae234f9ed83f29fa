"""A network as a C99 program: no allocation, no library but the mathematical one."""

from argand.deploy.c.export import CProgram, export_c

__all__ = ["CProgram", "export_c"]
