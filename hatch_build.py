"""The build hook of hatchling: compiles the core into the wheel where a C compiler is at hand."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCoreHook(BuildHookInterface[Any]):
    """Adds the compiled core to the wheel and tags the wheel with its platform.

    The compilation happens in a temporary folder: installing from a checkout leaves the checkout as it was.
    """

    _scratch: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install is made by `make setup`, which compiles in a step of its own: a type error in the
        # working tree should stop the compilation, not the installation of the tools that show it.
        if version == "editable":
            return
        # The hook is loaded by its path: the directory it lies in is not on the module path of the build backend.
        sys.path.insert(0, self.root)
        try:
            from tools.compile_core import compile_into
        finally:
            sys.path.remove(self.root)

        self._scratch = Path(tempfile.mkdtemp(prefix="tandem-build-"))
        made = self._scratch / "made"
        outcome = compile_into(Path(self.root), made, self._scratch)
        if outcome.is_failure:
            self.app.display_warning((self._scratch / "compile.log").read_text(encoding="utf-8"))
            self.app.display_warning(outcome.sentence())
        else:
            self.app.display_info(outcome.sentence())
        if outcome.shared_objects:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update(
                {str(path): path.relative_to(made).as_posix() for path in outcome.shared_objects}
            )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
