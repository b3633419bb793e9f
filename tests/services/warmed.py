"""What each forked life would otherwise do for the first time; imported by the server alone."""

import functools
import gc
import ssl

import botocore.session
import pyarrow.parquet  # noqa: F401  (otherwise imported where the documents are read)

from precis.environment import S3Environment, Variables
from precis.report.curve import StepPoint, learning_curve
from precis.store.s3_client import client_for

_READ_AGAIN = {
    ssl: "create_default_context",  # by each client: all certificates, for the loopback
    botocore.session: "create_loader",  # by each client of S3: all that S3 can do
}
for module, name in _READ_AGAIN.items():
    setattr(module, name, functools.cache(getattr(module, name)))
ssl.create_default_context()
client_for(S3Environment(aws_region="us-east-1", aws_access_key_id="", aws_secret_access_key=""))

Variables()  # the first one inspects its fields, for 0.3 s
learning_curve([StepPoint(0, 0.1), StepPoint(1, 0.2)], {}, None).png()  # finds the fonts

gc.collect()
gc.freeze()  # a collection in a child would copy every page that it touches
