import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['lib', 'node_modules', 'src/protocol/api.ts'] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked.map(config => ({ ...config, files: ['src/**/*.ts', 'src/**/*.tsx', 'tests/**/*.ts'] })),
  {
    files: ['src/**/*.ts', 'src/**/*.tsx', 'tests/**/*.ts'],
    languageOptions: {
      parserOptions: {
        project: ['src/*/tsconfig.json', 'tests/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname
      }
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // The records of the wire say what should be there; the code still looks.
      '@typescript-eslint/no-unnecessary-condition': 'off',
      // JupyterLab's own signatures are Promise<void> | void in places.
      '@typescript-eslint/no-invalid-void-type': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off'
    }
  }
);
