"""The build hook of hatchling: compiles the core into the wheel where a C compiler is at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCoreHook(BuildHookInterface[Any]):
    """Adds what mypyc made of `tandem.amqp` to the wheel and tags the wheel with its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install is made by `make setup`, which compiles in a step of its own: a type error in the
        # working tree should stop the compilation, not the installation of the tools that show it.
        if version == "editable":
            return
        # The hook is loaded by its path: the directory it lies in is not on the module path of the build backend.
        sys.path.insert(0, self.root)
        try:
            from tools.compile_core import compile_core
        finally:
            sys.path.remove(self.root)

        source_root = Path(self.root, "src")
        outcome = compile_core(Path(self.root))
        self.app.display_info(outcome.sentence())
        if outcome.shared_objects:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update(
                {str(path): path.relative_to(source_root).as_posix() for path in outcome.shared_objects}
            )
