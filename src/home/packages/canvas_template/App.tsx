export default function App() {
  return <main>{{name}}</main>;
}
