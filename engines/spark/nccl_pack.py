"""Packs the logs of a manifest with Spark, a task for some of them at a time.

    spark-submit nccl_pack.py MANIFEST PARTS [NCCL_PACK]

MANIFEST has a path on each line, PARTS is a folder that all executors see, NCCL_PACK is the packer (default:
nccl-pack on the path). Spark runs a task again where it fails; a part that is there is not written again.
"""

import json
import shlex
import sys

from pyspark.sql import SparkSession

FILES_PER_TASK = 64


def main(manifest: str, parts: str, packer: str = "nccl-pack") -> None:
    with open(manifest, encoding="utf-8", errors="surrogateescape") as lines:
        paths = [line.rstrip("\n") for line in lines if line.strip()]
    spark = SparkSession.builder.appName("nccl-pack").getOrCreate()
    try:
        context = spark.sparkContext
        # Tasks follow cores: more of them than files help nobody.
        tasks = max(1, min(len(paths), max(context.defaultParallelism, len(paths) // FILES_PER_TASK)))
        pack = [packer, "-q", "-j", "1", "--to", parts, "--manifest", "-"]
        # The packer ends with 2 if it lacks an input, after it packed the others. As a failure that would end the
        # whole job, and what other tasks still had to pack.
        command = shlex.join(["sh", "-c", '"$@" || [ $? -eq 2 ]', "sh", *pack])
        # Without checkCode Spark would go on without the rows of a task that failed.
        receipts = context.parallelize(paths, tasks).pipe(command, checkCode=True).collect()
    finally:
        spark.stop()
    packed = {json.loads(line)["input"] for line in receipts}
    missing = [path for path in paths if path not in packed]
    for path in missing:
        print(f"nccl_pack.py: error: {path}: it has no part", file=sys.stderr)
    print(f"{len(packed)} of {len(set(paths))} inputs are packed in {parts}", file=sys.stderr)
    sys.exit(2 if missing else 0)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
