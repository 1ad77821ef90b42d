// The data: one JSON API, and a stream that says when there is something new. The token, if one is needed, stays in
// this tab.

const BASE = new URL("api/", document.baseURI);
const TOKEN = "moorage-token";
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10000;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

function address(name, asked) {
  const url = new URL(name, BASE);
  for (const [key, value] of Object.entries(asked)) {
    if (value !== undefined && value !== "") url.searchParams.set(key, value);
  }
  return url;
}

export async function get(name, asked = {}, signal) {
  return answered(await fetch(address(name, asked), { headers: headers(), signal, cache: "no-store" }));
}

export async function post(name, body) {
  const said = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  return answered(await fetch(address(name, {}), said));
}

async function answered(response) {
  if (response.ok) return response.json();
  let message = `the server responded with status ${response.status}`;
  try {
    const body = await response.json();
    message = body.error ?? body.message ?? message;
  } catch {
    // Not JSON: a proxy, perhaps. The status will do.
  }
  throw new Refused(response.status, message);
}

// Follows the stream of versions for as long as the page is open: onVersion(number), onLink(true or false).
export async function follow(onVersion, onLink) {
  let pause = FIRST_PAUSE;
  for (;;) {
    try {
      const response = await fetch(address("events", {}), { headers: headers(), cache: "no-store" });
      if (!response.ok) throw new Refused(response.status, "no stream");
      pause = FIRST_PAUSE;
      onLink(true);
      await read(response.body.getReader(), onVersion);
      onLink(false);
    } catch (error) {
      onLink(false, error);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function read(reader, onVersion) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) onVersion(JSON.parse(data.slice(6)).version);
    }
  }
}
