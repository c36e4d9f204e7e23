"""Makes the OptunaHub package of DGDSampler: the files in dgd/ and two files of wmg.

python packages/optunahub/make.py REGISTRY/package

writes the folder samplers/dgd there. REGISTRY is a clone of the repository
https://github.com/optuna/optunahub-registry.
"""

import argparse
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
TUNER = HERE.parents[1] / "src" / "wmg" / "tuner"
SOURCES = (TUNER / "dgd.py", TUNER / "sampler.py")


def make(packages: pathlib.Path) -> pathlib.Path:
    """Write the package into a registry's folder of packages and return its folder."""
    folder = packages / "samplers" / "dgd"
    shutil.copytree(HERE / "dgd", folder, dirs_exist_ok=True)
    for source in SOURCES:
        shutil.copy(source, folder)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=pathlib.Path)
    print(make(parser.parse_args().packages))
