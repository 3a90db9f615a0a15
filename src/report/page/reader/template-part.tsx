// What the prompts share, and rollouts to see it in.
import { percentText } from '../../charts/number-text.js';
import type { Phrase, RunData } from '../../report.js';
import { Part } from '../parts.js';
import { Reader } from './reader.js';

export function TemplatePart({ run }: { run: RunData }) {
  const { template, templateStep } = run.head;
  if (template.length === 0 && run.texts.length === 0) return null;
  return (
    <Part
      title="The template"
      about={
        template.length > 0
          ? `Phrases that most prompts share at step ${templateStep}, with their share of all text there and at the run's first step.`
          : 'No phrase is shared by most prompts.'
      }
    >
      {template.length > 0 && <Phrases template={template} />}
      <Reader run={run} />
    </Part>
  );
}

function Phrases({ template }: { template: readonly Phrase[] }) {
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys */}
      <section class="scrolls" tabIndex={0} aria-label="Phrases of the template">
        <table class="phrases">
          <thead>
            <tr>
              <th scope="col">phrase</th>
              <th scope="col">prompts</th>
              <th scope="col">of the text</th>
              <th scope="col">at first</th>
            </tr>
          </thead>
          <tbody>
            {template.map(({ text, prompts, share, shareAtFirstStep }) => (
              <tr key={text}>
                <th scope="row">
                  <bdi>“{text}”</bdi>
                </th>
                <td>{prompts}</td>
                <td>
                  <span class="bar" style={{ width: `${Math.round(120 * share)}px` }} /> {percentText(share)}
                </td>
                <td>{percentText(shareAtFirstStep)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
