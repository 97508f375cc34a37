/** The last part of a path; `/` has none. */
export function basename(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The directory of a path; that of `/a` is `/`. */
export function dirname(path: string): string {
  const end = path.lastIndexOf('/');
  return end <= 0 ? '/' : path.slice(0, end);
}

export function joinPath(directory: string, name: string): string {
  return directory.endsWith('/') ? directory + name : `${directory}/${name}`;
}
