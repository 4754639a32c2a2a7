// The API reference at /docs: Swagger UI (Apache-2.0) replaces the plain list of routes.

import "swagger-ui-dist/swagger-ui.css";
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";

const domNode = document.getElementById("reference");
if (!domNode) throw new Error("the page has no place for the reference");
SwaggerUI({
  domNode,
  url: "/docs/openapi.json",
  validatorUrl: null, // else the URL of the document is sent to validator.swagger.io
  supportedSubmitMethods: [], // read-only: calls would use the session of the reader
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  deepLinking: false, // the fragment names a problem code
});
