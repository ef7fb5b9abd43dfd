// Embeddings → two dimensions: the first two principal components, by power iteration.

const ROUNDS = 60;
const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);

export function project(vectors) {
  const width = vectors[0].length;
  const mean = Array.from({ length: width }, (_, column) => vectors.reduce((sum, row) => sum + row[column], 0) / vectors.length);
  let rows = vectors.map((row) => row.map((value, column) => value - mean[column]));
  const found = [];
  for (let axis = 0; axis < 2; axis += 1) {
    let direction = Array.from({ length: width }, (_, column) => Math.sin(1 + column * (axis + 1))); // any start, the same each time
    for (let round = 0; round < ROUNDS; round += 1) {
      const weights = rows.map((row) => dot(row, direction));
      const next = new Array(width).fill(0);
      rows.forEach((row, index) => row.forEach((value, column) => { next[column] += weights[index] * value; }));
      const length = Math.sqrt(dot(next, next)) || 1;
      direction = next.map((value) => value / length);
    }
    const places = rows.map((row) => dot(row, direction));
    rows = rows.map((row, index) => row.map((value, column) => value - places[index] * direction[column]));
    found.push(places);
  }
  return vectors.map((_, index) => [found[0][index], found[1][index]]);
}
