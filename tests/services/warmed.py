"""What each forked life would otherwise do for the first time; imported by the server alone."""

import gc

import boto3
import httpx

from precis.environment import Environment, S3Environment

Environment(), S3Environment()  # the first of each inspects its fields, for 0.3 s
boto3.client("s3", region_name="us-east-1", aws_access_key_id="", aws_secret_access_key="")
httpx.create_ssl_context()
gc.collect()
gc.freeze()  # a collection in a child would copy every page that it touches
