// What both pages need. Everything sets text, never markup: what is shown is data, and may hold
// anything.

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const control = (id) => document.getElementById(id);

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

// Choose the next of a list's options, or the one before, and go round at its ends.
function move(id, by, then) {
  const select = control(id);
  const count = select.options.length;
  if (count) select.selectedIndex = (select.selectedIndex + by + count) % count;
  then();
}

function fill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => {
    const option = element("option", "", text);
    option.value = value;
    return option;
  }));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}
