export { svgOf } from '../page/echarts.js';
