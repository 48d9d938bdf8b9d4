"""Where Bedrock's runtime is, and how its name is written in traces: for Converse and for InvokeModel."""

from dragoman.adapter.contract import Endpoint

ENDPOINT = Endpoint(
    base_url="https://bedrock-runtime.{AWS_REGION}.amazonaws.com",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    credentials="aws",
    scope="bedrock",
)
TELEMETRY_NAME = "aws.bedrock"
