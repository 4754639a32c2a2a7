declare module "*.css";

declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  // https://swagger.io/docs/open-source-tools/swagger-ui/usage/configuration/
  export default function SwaggerUI(options: {
    domNode: Element;
    url: string;
    validatorUrl: null;
    supportedSubmitMethods: string[];
    docExpansion: "none" | "list" | "full";
    defaultModelsExpandDepth: number;
    deepLinking: boolean;
  }): void;
}
