// Text separated by commas, tabs or semicolons ↔ rows.

export function parse(text) {
  const heading = text.split("\n", 1)[0];
  const delimiter = ["\t", ",", ";"].find((character) => heading.includes(character)) ?? ",";
  const rows = [];
  let row = [], field = "", quoted = false;
  for (let place = text.charCodeAt(0) === 0xfeff ? 1 : 0; place < text.length; place += 1) {
    const character = text[place];
    if (quoted) {
      if (character !== '"') field += character;
      else if (text[place + 1] === '"') { field += '"'; place += 1; }
      else quoted = false;
    } else if (character === '"' && !field) quoted = true;
    else if (character === delimiter) { row.push(field); field = ""; }
    else if (character === "\n") { row.push(field.replace(/\r$/, "")); rows.push(row); row = []; field = ""; }
    else field += character;
  }
  if (field || row.length) { row.push(field); rows.push(row); }
  if (quoted) throw new Error("a quote that opens a field is never closed");
  const [header, ...body] = rows.filter((one) => one.length > 1 || one[0]);
  if (!header || !body.length) throw new Error("the file needs a line of headings and a row below it");
  const odd = body.findIndex((one) => one.length !== header.length);
  if (odd >= 0) throw new Error(`row ${odd + 1} has ${body[odd].length} fields, and the headings ${header.length}`);
  return { header, rows: body };
}

const field = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
export const format = (rows) => rows.map((row) => row.map((value) => field(String(value))).join(",")).join("\n") + "\n";
