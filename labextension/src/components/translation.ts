/** Messages in the page's language; `%1` in a text is the first value. */
export interface ITranslation {
  __(text: string, ...values: readonly (string | number)[]): string;
}

const english: ITranslation = {
  __: (text, ...values) => text.replace(/%(\d)/g, (mark, number) => String(values[Number(number) - 1] ?? mark))
};

let messages = english;

/** Takes the messages of the page that shows us; without a call they stay English. */
export function setTranslation(translated: ITranslation): void {
  messages = translated;
}

/** What views say; asked at the moment of saying, since the language comes after the modules. */
export const trans: ITranslation = {
  __: (text, ...values) => messages.__(text, ...values)
};
