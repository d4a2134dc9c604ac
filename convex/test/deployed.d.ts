declare module "deployed" {
  const modules: Record<string, () => Promise<unknown>>;
  export default modules;
}
