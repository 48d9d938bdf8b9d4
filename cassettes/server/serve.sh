#!/bin/sh
# Serves one model for recording, the same way each time:
#
#   serve.sh LLAMA_SERVER MODEL.gguf [NAME] [PORT]
#
# LLAMA_SERVER  the built llama-server program
# MODEL.gguf    the model file
# NAME          the model name that clients ask for (default: qwen2.5-coder-0.5b)
# PORT          on 127.0.0.1 (default: 8931)
#
# THINKING=on   every answer begins with at most 32 tokens of thinking.
set -eu

server=${1:?path of llama-server}
model=${2:?path of a GGUF model}
name=${3:-qwen2.5-coder-0.5b}
port=${4:-8931}

# Greedy sampling, one slot, one thread and no reuse of an earlier prompt: the same request gets the same answer.
set -- --host 127.0.0.1 --port "$port" --offline --no-ui \
  -m "$model" -a "$name" -c 8192 --parallel 1 -t 1 --temp 0 --no-cache-prompt \
  --jinja --chat-template-file "$(dirname "$0")/template.jinja"

if [ "${THINKING:-off}" = on ]; then
  exec "$server" "$@" --reasoning on --reasoning-budget 32
fi
exec "$server" "$@" --reasoning off
