"""ModuleManager: the loaded modules of a session, and the order in which functions are looked up in them.

Source: org.apache.flink.table.module.ModuleManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.table.module.module import CoreModule, Module

CORE = "core"


class ModuleManager:
    """Thread: that of the program.

    Invariant: each used module is loaded.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Module] = {CORE: CoreModule()}
        #: The names of the used modules in the order of resolution.
        self._used = [CORE]

    def load_module(self, name: str, module: Module) -> None:
        """Loads a module, and uses it behind those in use. Raises: ValidationError if the name is taken."""
        if not name.strip():
            raise ValidationError("name cannot be null or empty string")
        if name in self._loaded:
            raise ValidationError(f"A module with name '{name}' already exists", details={"module": name})
        self._loaded[name] = module
        self._used.append(name)

    def unload_module(self, name: str) -> None:
        """Raises: ValidationError if there is no such module."""
        if self._loaded.pop(name, None) is None:
            raise self._unknown(name)
        if name in self._used:
            self._used.remove(name)

    def use_modules(self, names: Sequence[str]) -> None:
        """Uses these modules, in this order, and no others.

        Raises: ValidationError if a name is unknown or given twice. Then nothing changes.
        """
        for place, name in enumerate(names):
            if name not in self._loaded:
                raise self._unknown(name)
            if name in names[:place]:
                raise ValidationError(f"Module '{name}' appears more than once", details={"module": name})
        self._used = list(names)

    def _unknown(self, name: str) -> ValidationError:
        return ValidationError(f"No module with name '{name}' exists", details={"module": name})

    def list_modules(self) -> list[str]:
        """Returns the names of the used modules in the order of resolution."""
        return list(self._used)

    def list_full_modules(self) -> list[tuple[str, bool]]:
        """Returns the names of all loaded modules, and if each is used. Used ones come first."""
        unused = [name for name in self._loaded if name not in self._used]
        return [*((name, True) for name in self._used), *((name, False) for name in unused)]

    def list_functions(self) -> set[str]:
        """Returns the names of the functions of the used modules."""
        return {each for name in self._used for each in self._loaded[name].list_functions()}

    def module_of(self, function: str) -> str | None:
        """Returns the name of the first used module that has a function of this name; None if none has."""
        return next((name for name in self._used if self._loaded[name].has_function(function)), None)

    def get_function(self, name: str) -> Any:
        """Returns the object of a function of a module; None for built-in functions and unknown names."""
        module = self.module_of(name)
        return None if module is None else self._loaded[module].get_function(name)

    def is_builtin(self, name: str) -> bool:
        """True if the name stands for a built-in function, and not for one of another module."""
        module = self.module_of(name)
        return module is not None and isinstance(self._loaded[module], CoreModule)
