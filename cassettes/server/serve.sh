#!/bin/sh
# Serves one model for recording, the same way each time:
#
#   serve.sh LLAMA_SERVER MODEL.gguf [NAME] [PORT]
#
# LLAMA_SERVER  the built llama-server program
# MODEL.gguf    the model file
# NAME          the model name that answers carry (default: qwen2.5-coder-0.5b)
# PORT          on 127.0.0.1 (default: 8931)
#
# With THINKING=on in the environment every answer begins with thinking.
set -eu

server=${1:?path of llama-server}
model=${2:?path of a GGUF model}
name=${3:-qwen2.5-coder-0.5b}
port=${4:-8931}

case ${THINKING:-off} in
  on | off) thinking=${THINKING:-off} ;;
  *) echo "THINKING is on or off" >&2; exit 2 ;;
esac

# Greedy sampling, one slot, one thread and no reuse of an earlier prompt: the same request gets the same answer.
exec "$server" --host 127.0.0.1 --port "$port" --offline --no-ui \
  -m "$model" -a "$name" -c 8192 --parallel 1 -t 1 --temp 0 --no-cache-prompt \
  --jinja --chat-template-file "$(dirname "$0")/template.jinja" --reasoning "$thinking"
