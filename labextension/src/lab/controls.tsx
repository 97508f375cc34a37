import * as React from 'react';

interface IChoiceProps<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly choose: (value: T) => void;
  /** Each value with its text, in the order in which they are offered. */
  readonly options: readonly (readonly [value: T, text: string])[];
}

/** A list of which one value is chosen. */
export function Choice<T extends string>({ label, value, choose, options }: IChoiceProps<T>): React.JSX.Element {
  return (
    <select
      className="sbx-Input"
      aria-label={label}
      value={value}
      onChange={event => {
        choose(event.target.value as T);
      }}
    >
      {options.map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  );
}

interface IFilterProps {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  /** The tooltip, which says what is searched. */
  readonly title?: string;
  readonly placeholder: string;
}

/** A field whose text narrows a list down. */
export function Filter({ label, value, change, title, placeholder }: IFilterProps): React.JSX.Element {
  return (
    <input
      type="search"
      className="sbx-Input"
      placeholder={placeholder}
      title={title}
      aria-label={label}
      value={value}
      onChange={event => {
        change(event.target.value);
      }}
    />
  );
}
