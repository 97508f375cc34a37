import * as React from 'react';

import { trans } from '../../components/translation';

interface INameFormProps {
  readonly label: string;
  readonly button: string;
  /** Whether it also asks for a value, which is not shown. */
  readonly hasValue?: boolean;
  /** The name, where it is not to be chosen. */
  readonly name?: string;
  /** Whether it worked: then the fields are emptied. */
  readonly submit: (name: string, value: string) => Promise<boolean>;
  readonly cancel?: () => void;
}

/** A line that asks for a name, and for the value of a secret. */
export function NameForm({ label, button, hasValue = false, name: fixed, submit, cancel }: INameFormProps): React.JSX.Element {
  const [name, setName] = React.useState(fixed ?? '');
  const [value, setValue] = React.useState('');
  const [isBusy, setBusy] = React.useState(false);
  const valueInput = React.useRef<HTMLInputElement>(null);
  React.useEffect(() => {
    // It was opened for a name that the user has just chosen.
    if (fixed !== undefined) {
      valueInput.current?.focus();
    }
  }, [fixed]);
  const send = async () => {
    setBusy(true);
    const isDone = await submit(name.trim(), value);
    setBusy(false);
    setValue('');
    if (isDone && fixed === undefined) {
      setName('');
    }
  };
  return (
    <form
      className="sbx-NameForm"
      aria-label={label}
      autoComplete="off"
      onSubmit={event => {
        event.preventDefault();
        void send();
      }}
    >
      {fixed === undefined ? (
        <input
          className="sbx-Input"
          placeholder={label}
          aria-label={trans.__('%1: name', label)}
          required
          maxLength={100}
          spellCheck={false}
          value={name}
          onChange={event => {
            setName(event.target.value);
          }}
        />
      ) : (
        <span className="sbx-NameForm-label">{label}</span>
      )}
      {hasValue && (
        <input
          ref={valueInput}
          className="sbx-Input"
          type="password"
          autoComplete="new-password"
          placeholder={trans.__('Value')}
          aria-label={trans.__('%1: value', label)}
          required
          value={value}
          onChange={event => {
            setValue(event.target.value);
          }}
        />
      )}
      <button type="submit" className="sbx-Button" disabled={isBusy || name.trim() === '' || (hasValue && value === '')}>
        {button}
      </button>
      {cancel !== undefined && (
        <button type="button" className="sbx-Button sbx-mod-plain" onClick={cancel}>
          {trans.__('Cancel')}
        </button>
      )}
    </form>
  );
}
