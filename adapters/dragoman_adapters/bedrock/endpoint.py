"""The address of Bedrock's runtime, and its name in traces, which the adapters of Converse and of InvokeModel share."""

from dragoman.adapter.contract import Endpoint

ENDPOINT = Endpoint(
    base_url="https://bedrock-runtime.{AWS_REGION}.amazonaws.com",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    credentials="aws",
    scope="bedrock",  # the service that a signature names; the host has another name
)
TELEMETRY_NAME = "aws.bedrock"
