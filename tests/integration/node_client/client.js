// Lists the jobs of a cluster, follows one until it ends, and cancels it on the way: all from the .proto files alone.
//
//   node client.js ADDRESS PROTO_DIRECTORY list
//   node client.js ADDRESS PROTO_DIRECTORY follow JOB_ID
//   node client.js ADDRESS PROTO_DIRECTORY cancel JOB_ID
//
// Prints one JSON document per line. The environment variable FLINKPY_TOKEN has what `flinkpy token` prints.
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const [address, protoDirectory, verb, jobId] = process.argv.slice(2);
const definition = protoLoader.loadSync(path.join('flinkpy', 'dispatcher.proto'), {
  includeDirs: [protoDirectory],
  keepCase: true,
  enums: String,
  longs: Number,
  defaults: true,
});
const { Dispatcher } = grpc.loadPackageDefinition(definition).flinkpy;

// The last part of a token is the certificate by which the cluster is recognised: only the cluster may see the token.
const token = process.env.FLINKPY_TOKEN;
const certificate = Buffer.from(token.split('.').pop(), 'base64url').toString('base64');
const authority = ['-----BEGIN CERTIFICATE-----', ...certificate.match(/.{1,64}/g), '-----END CERTIFICATE-----', ''];
const dispatcher = new Dispatcher(address, grpc.credentials.createSsl(Buffer.from(authority.join('\n'))), {
  'grpc.ssl_target_name_override': 'flinkpy-internal',
});

const metadata = new grpc.Metadata();
metadata.set('authorization', `Bearer ${token}`);

function show(document) {
  process.stdout.write(JSON.stringify(document) + '\n');
}

function fail(error) {
  process.stderr.write(`${grpc.status[error.code]}: ${error.details}\n`);
  process.exitCode = 1;
  dispatcher.close();
}

function answer(error, response) {
  if (error) {
    fail(error);
    return;
  }
  show(response);
  dispatcher.close();
}

if (verb === 'list') {
  dispatcher.ListJobs({}, metadata, answer);
} else if (verb === 'cancel') {
  dispatcher.CancelJob({ job_id: jobId }, metadata, answer);
} else if (verb === 'follow') {
  const statuses = dispatcher.WatchJobStatus({ job_id: jobId }, metadata);
  statuses.on('data', show);
  statuses.on('error', fail);
  statuses.on('end', () => dispatcher.close());
} else {
  process.stderr.write(`unknown verb ${verb}\n`);
  process.exitCode = 2;
}
