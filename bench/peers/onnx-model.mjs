// Writes the bytes of an ONNX model of a few operators, in the protobuf encoding of onnx.proto (field numbers from there).

const wireVarint = 0;
const wireBytes = 2;

function varint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 0x80 : low);
  } while (rest > 0n);
  return bytes;
}

const integer = (field, value) => [...varint((field << 3) | wireVarint), ...varint(value)];
const bytes = (field, content) => [...varint((field << 3) | wireBytes), ...varint(content.length), ...content];
const string = (field, text) => bytes(field, [...new TextEncoder().encode(text)]);

const elementTypes = { float32: 1, int64: 7, float64: 11 };
const attributeInteger = 2;
const attributeIntegers = 7;

/** AttributeProto: an integer or a list of them. */
function attribute(name, value) {
  const content = Array.isArray(value)
    ? [...value.flatMap((entry) => integer(8, entry)), ...integer(20, attributeIntegers)]
    : [...integer(3, value), ...integer(20, attributeInteger)];
  return [...string(1, name), ...content];
}

/** NodeProto */
const node = ({ operator, inputs, outputs, attributes = {} }) => [
  ...inputs.flatMap((name) => string(1, name)),
  ...outputs.flatMap((name) => string(2, name)),
  ...string(4, operator),
  ...Object.entries(attributes).flatMap(([name, value]) => bytes(5, attribute(name, value))),
];

/** ValueInfoProto: a tensor with any extents, by the number of its axes. */
function value({ name, type, axes }) {
  const shape = Array.from({ length: axes }, (_, axis) => bytes(1, string(2, `${name}_${axis}`))).flat();
  return [...string(1, name), ...bytes(2, bytes(1, [...integer(1, elementTypes[type]), ...bytes(2, shape)]))];
}

/** TensorProto: a constant of one axis. */
const constant = ({ name, values }) => [
  ...integer(1, values.length),
  ...integer(2, elementTypes.int64),
  ...values.flatMap((entry) => integer(7, entry)),
  ...string(8, name),
];

/**
 * @typedef {{ name: string, type: string, axes: number }} Value
 *
 * @param {object} graph
 * @param {{ operator: string, inputs: string[], outputs: string[], attributes?: object }[]} graph.nodes
 * @param {Value[]} graph.inputs
 * @param {Value[]} graph.outputs
 * @param {{ name: string, values: number[] }[]} [graph.constants]
 * @returns {Uint8Array} a model of IR version 8, operator set 13
 */
export function onnxModel({ nodes, inputs, outputs, constants = [] }) {
  const graph = [
    ...nodes.flatMap((one) => bytes(1, node(one))),
    ...string(2, 'graph'),
    ...constants.flatMap((one) => bytes(5, constant(one))),
    ...inputs.flatMap((one) => bytes(11, value(one))),
    ...outputs.flatMap((one) => bytes(12, value(one))),
  ];
  return Uint8Array.from([...integer(1, 8), ...bytes(7, graph), ...bytes(8, integer(2, 13))]);
}
