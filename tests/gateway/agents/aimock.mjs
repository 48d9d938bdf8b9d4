// aimock with the task of strict.py: two reads in parallel, an edit, a test, and a report, each with reasoning.
// Its tools are those of the agent that asks: the request names them.
import { LLMock } from "@copilotkit/aimock";

const SHELLS = { Bash: "command", exec_command: "cmd", bash: "command", run_shell_command: "command" };
const READERS = { Read: "file_path", read_file: "file_path", read: "filePath" };
const EDITORS = {
  Edit: ["file_path", "old_string", "new_string"],
  replace: ["file_path", "old_string", "new_string"],
  edit: ["filePath", "oldString", "newString"],
};

const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n");

const find = (request, table) =>
  (request.tools ?? []).map((tool) => tool.function.name).find((name) => name in table);

function stepOf(request) {
  if (!(request.tools ?? []).length) return -1;
  const results = request.messages.filter((message) => message.role === "tool").length;
  return Math.max(0, results - 1); // the first step has two
}

const call = (name, fields) => ({ name, arguments: JSON.stringify(fields) });

function shell(request, command) {
  const name = find(request, SHELLS);
  return call(name, { [SHELLS[name]]: command, ...(name === "exec_command" ? {} : { description: "run it" }) });
}

function read(request, path) {
  const name = find(request, READERS);
  return name ? call(name, { [READERS[name]]: path }) : shell(request, `cat ${path}`);
}

function edit(request, path) {
  const name = find(request, EDITORS);
  if (!name) return shell(request, `sed -i 's/a - b/a + b/' ${path}`);
  const [file, before, after] = EDITORS[name];
  const fields = { [file]: path, [before]: "return a - b", [after]: "return a + b" };
  return call(name, name === "replace" ? { ...fields, instruction: "fix the sign" } : fields);
}

function answer(request) {
  const all = request.messages.map((message) => textOf(message.content)).join("\n");
  const folder = /folder=([\w/.-]+)/.exec(all)?.[1] ?? "/tmp";
  const reasoning = { reasoning: "Let me think. ".repeat(3) };
  switch (stepOf(request)) {
    case -1:
      return { content: "Fix the calculator" };
    case 0: {
      const toolCalls = [read(request, `${folder}/calc.py`), shell(request, `cat ${folder}/notes.txt`)];
      return { ...reasoning, content: "I read both files.", toolCalls };
    }
    case 1:
      return { ...reasoning, toolCalls: [edit(request, `${folder}/calc.py`)] };
    case 2:
      return { ...reasoning, content: "Now the test.", toolCalls: [shell(request, `cd ${folder} && python3 test.py`)] };
    default: {
      const results = request.messages.filter((message) => message.role === "tool");
      return { ...reasoning, content: `All done: ${textOf(results.at(-1)?.content).slice(-300)} END-MARK` };
    }
  }
}

const mock = new LLMock({ port: 0, host: "127.0.0.1" });
mock.addFixture({ match: { predicate: () => true }, response: answer });
await mock.start();
console.log(`running on ${mock.url}`);
