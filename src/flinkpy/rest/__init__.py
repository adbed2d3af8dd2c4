"""The REST server in the Dispatcher's process: Flink's monitoring API and the dashboard.

| module                    | what it holds                                                                      |
|---------------------------|------------------------------------------------------------------------------------|
| endpoint                  | the listening socket, which loads all modules below when the first client connects |
| server                    | the HTTP server on that socket                                                      |
| application               | the ASGI application: routes, limits, errors                                        |
| access                    | who may call: tokens, sessions, `Host` and `Origin`                                 |
| operation                 | what an operation is: verb, path, parameters, bodies, role                          |
| handlers                  | the operations, a module per noun                                                   |
| messages                  | their request and response bodies                                                   |

Source: org.apache.flink.runtime.rest.RestServerEndpoint, org.apache.flink.runtime.webmonitor.WebMonitorEndpoint.
Differs: docs/decisions/0048.
"""
