import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'happy-dom',
    // A process for each file does not start in time, or at all, on a machine that is busy.
    pool: 'threads',
    // Else style sheets are empty for the tests that read them.
    css: true,
    include: ['tests/**/*.test.ts'],
    // Nothing is measured by these: a busy machine takes longer than the 5 and 10 seconds that are usual.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: {
      enabled: true,
      provider: 'v8',
      include: ['src/components/**/*.ts', 'src/protocol/**/*.ts'],
      reporter: ['text'],
      thresholds: {
        'src/components/**': { lines: 90 },
        'src/protocol/**': { lines: 90 }
      }
    }
  }
});
