"""Serve the embedded API from a directory until killed: `python -m tests.integration.serving DATA KUBECONFIG`."""

import asyncio
import sys
from pathlib import Path

import uvloop
import yaml

from moorage.cluster.apiserver.server import ApiServer


async def serve(data: Path, kubeconfig: Path) -> None:
    async with ApiServer(data_dir=data) as server:
        output = kubeconfig.with_suffix(".new")
        output.write_text(yaml.safe_dump(server.kubeconfig()))
        output.rename(kubeconfig)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
