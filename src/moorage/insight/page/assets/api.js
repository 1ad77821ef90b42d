// Client of the page's JSON API and of its stream of version events. The optional token is stored in this tab only.

const BASE = new URL("api/", document.baseURI);
const TOKEN = "moorage-token";
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10000;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function storeToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

// `moorage up` prints an address with its token. Servers do not receive this part of an address.
if (location.hash.startsWith("#token=")) {
  storeToken(decodeURIComponent(location.hash.slice("#token=".length)));
  history.replaceState(null, "", "#/");
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

function address(name, query) {
  const url = new URL(name, BASE);
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(key, value);
  }
  return url;
}

export async function get(name, query = {}, signal) {
  return readBody(await fetch(address(name, query), { headers: headers(), signal, cache: "no-store" }));
}

export async function post(name, body) {
  const options = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  return readBody(await fetch(address(name, {}), options));
}

async function readBody(response) {
  if (response.ok) return response.json();
  let message = `the server responded with status ${response.status}`;
  try {
    const body = await response.json();
    message = body.error ?? body.message ?? message;
  } catch {
    // Not JSON, for example the error page of a proxy: report the status only.
  }
  throw new ApiError(response.status, message);
}

// Follow the stream of versions while the page is open. Calls onVersion(number) and onLink(isConnected, error).
export async function follow(onVersion, onLink) {
  let pause = FIRST_PAUSE;
  for (;;) {
    try {
      const response = await fetch(address("events", {}), { headers: headers(), cache: "no-store" });
      if (!response.ok) throw new ApiError(response.status, "no stream");
      pause = FIRST_PAUSE;
      onLink(true);
      await readEvents(response.body.getReader(), onVersion);
      onLink(false);
    } catch (error) {
      onLink(false, error);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function readEvents(reader, onVersion) {
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
