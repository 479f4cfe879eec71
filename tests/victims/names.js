// names.js - memory that a JavaScript developer knows by the function that asked for it.
// Truth: tests/truth/test_names.py finds the lines by the words behind "SITE".
function fill(n) { // SITE fill
  const all = [];
  for (let i = 0; i < n; i++) all.push(Buffer.alloc(100000));
  return all;
}

class Store {
  load(n) {
    this.all = fill(n);
    return this;
  }
}

console.log(new Store().load(50).all.length);
