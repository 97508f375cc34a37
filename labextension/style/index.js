import 'uplot/dist/uPlot.min.css';
import './components.css';
import './lab.css';
import './views.css';
import './contrast.css';
