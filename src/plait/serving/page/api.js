// Requests to the server, and the same request as curl and as Python.

import { find } from "./dom.js";

const state = { model: null, several: false, token: false };

export const setModel = (name, several) => Object.assign(state, { model: name, several });

/** Whether a program needs the server's token; the browser has asked for it itself. */
export async function findToken() {
  state.token = (await fetch("v1/models", { credentials: "omit" })).status === 401;
}

/** An error that the server explains. */
export class Refused extends Error {}

const withModel = (path) => (state.several && state.model ? `${path}?model=${encodeURIComponent(state.model)}` : path);

async function send(path, options) {
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(answer?.error?.message ?? `the server answered ${response.status}`);
  return answer;
}

export const get = (path) => send(path, {});
export const getModel = (path) => send(withModel(path), {});

/** Send a request; `show` describes it as a program would make it. */
export async function post(path, body, { signal, show = true } = {}) {
  const began = performance.now();
  const address = withModel(path);
  const answer = await send(address, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal,
  });
  if (show) {
    const tokens = answer.usage?.tokens ?? answer.usage?.total_tokens ?? 0;
    const truncated = answer.usage?.truncated ? ` · ${answer.usage.truncated} truncated` : "";
    find("timing").textContent = `${(performance.now() - began).toFixed(0)} ms · ${tokens.toLocaleString()} tokens${truncated}`;
    describe(path, address, body);
  }
  return answer;
}

const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const python = (value) => JSON.stringify(value).replaceAll(/\btrue\b/g, "True").replaceAll(/\bfalse\b/g, "False").replaceAll(/\bnull\b/g, "None");

function describe(path, address, body) {
  const base = new URL(".", location.href).href;
  const token = state.token ? ` \\\n  -H "Authorization: Bearer $PLAIT_TOKEN"` : "";
  const json = JSON.stringify(body);
  find("curl").textContent = `curl ${quote(base + address)}${token} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(json)}`;
  find("python").textContent = pythonCall(path, base, body);
}

function pythonCall(path, base, body) {
  const options = [JSON.stringify(base.replace(/\/$/, ""))];
  if (state.several) options.push(`model=${JSON.stringify(state.model)}`);
  if (state.token) options.push(`token=os.environ["PLAIT_TOKEN"]`);
  const head = `${state.token ? "import os\n\n" : ""}import plait\n\nclient = plait.Client(${options.join(", ")})\n`;
  const [first, task] = path.split("/");
  if (first === "predict") return `${head}client.predict(${JSON.stringify(task)}, ${pythonValue(body.texts ?? body.pairs)})`;
  if (first === "explain") {
    const example = Array.isArray(body.example) ? `(${body.example.map(pythonValue).join(", ")})` : pythonValue(body.example);
    return `${head}client.explain(${JSON.stringify(task)}, ${example})`;
  }
  const call = { analyze: [body.texts], similarity: [body.first], rerank: [body.query, body.texts] }[first];
  const extra = first === "rerank" && body.task ? `, task=${JSON.stringify(body.task)}` : "";
  return `${head}client.${first}(${call.map(pythonValue).join(", ")}${extra})`;
}

const pythonValue = (value) => (typeof value === "string" ? JSON.stringify(value) : python(value));
