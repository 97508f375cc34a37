/** Messages in the page's language; `%1` in a text is the first value. */
export interface ITranslation {
  __(text: string, ...values: readonly (string | number)[]): string;
}

const english: ITranslation = {
  __: (text, ...values) => text.replace(/%(\d)/g, (mark, number) => String(values[Number(number) - 1] ?? mark))
};

let messages = english;

/** Sets the translation of the page; without it messages are in English. */
export function setTranslation(translated: ITranslation): void {
  messages = translated;
}

/** Translates messages when they are shown, since modules are loaded before the language is known. */
export const trans: ITranslation = {
  __: (text, ...values) => messages.__(text, ...values)
};
