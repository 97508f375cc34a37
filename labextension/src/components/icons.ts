/** Icon shapes on a 24 by 24 grid, drawn for this project. */
export const chevron = 'M9 6l6 6-6 6z';
export const folder = 'M3 5h7l2 2h9v12H3z';
export const file = 'M6 3h8l5 5v13H6zM13 4.500V9h4.500z';
export const link = 'M4 11h11.200l-4-4L12.600 5.600 19 12l-6.400 6.400-1.400-1.400 4-4H4z';
export const refresh =
  'M12 5V1.500L17 6.200 12 11V7a5 5 0 1 0 5 5h2a7 7 0 1 1-7-7z';
export const upload = 'M11 16V8.800L7.900 11.900 6.500 10.500 12 5l5.500 5.500-1.400 1.400L13 8.800V16zM5 18h14v2H5z';
export const download = 'M11 4h2v7.200l3.100-3.100 1.400 1.400L12 15 6.500 9.500l1.400-1.400 3.100 3.100zM5 18h14v2H5z';
export const newFolder = 'M3 5h7l2 2h9v12H3zM13 10v2h-2v2h2v2h2v-2h2v-2h-2v-2z';
export const rename = 'M4 16.500V20h3.500L17.800 9.700l-3.500-3.500zM19.200 8.300a1 1 0 0 0 0-1.400l-2.100-2.100a1 1 0 0 0-1.400 0l-1.300 1.300 3.500 3.500z';
export const remove = 'M6 7h12l-1 14H7zM9 3h6l1 2h4v1.500H4V5h4z';
export const close = 'M6.400 5 12 10.600 17.600 5 19 6.400 13.400 12 19 17.600 17.600 19 12 13.400 6.400 19 5 17.600 10.600 12 5 6.400z';
export const copy = 'M8 3h12v14h-3v4H4V7h4zm2 2v10h8V5zM8 9H6v10h9v-2H8z';
