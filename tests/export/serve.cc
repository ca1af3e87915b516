// Loads a SavedModel as TF Serving does, without Python and without XLA, and answers.
//
//   serve FOLDER OP_LIBRARY [TEXT|TEXT.. TASK|TASK..]...
//
// Each pair is a request to serving_default. Prints a line for each of its rows, the
// output's bytes in hexadecimal and the score, or "error: MESSAGE"; then "end".

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace tensorflow {
void DisableXlaCompilation();  // what the server calls when it starts
}

void Require(TF_Status* status, const char* what) {
  if (TF_GetCode(status) == TF_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  std::exit(1);
}

std::vector<std::string> Split(const std::string& joined) {
  std::vector<std::string> parts(1);
  for (char c : joined) {
    if (c == '|') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

TF_Tensor* Strings(const std::vector<std::string>& values) {
  const int64_t size = values.size();
  TF_Tensor* tensor =
      TF_AllocateTensor(TF_STRING, &size, 1, size * sizeof(TF_TString));
  auto* data = static_cast<TF_TString*>(TF_TensorData(tensor));
  for (const std::string& value : values) {
    TF_TString_Init(data);
    TF_TString_Copy(data++, value.data(), value.size());
  }
  return tensor;
}

// The tensor that a signature knows as, for example, "StatefulPartitionedCall:2".
TF_Output Find(TF_Graph* graph, const tensorflow::TensorInfo& info) {
  const std::string name = info.name();
  const size_t colon = name.rfind(':');
  TF_Operation* op = TF_GraphOperationByName(graph, name.substr(0, colon).c_str());
  if (op == nullptr) {
    std::fprintf(stderr, "no operation %s\n", name.c_str());
    std::exit(1);
  }
  return {op, std::atoi(name.c_str() + colon + 1)};
}

void Print(TF_Tensor* texts, TF_Tensor* scores) {
  const auto* text = static_cast<TF_TString*>(TF_TensorData(texts));
  const auto* score = static_cast<float*>(TF_TensorData(scores));
  for (int64_t i = 0; i < TF_TensorElementCount(texts); ++i) {
    const char* bytes = TF_TString_GetDataPointer(text + i);
    for (size_t j = 0; j < TF_TString_GetSize(text + i); ++j) {
      std::printf("%02x", static_cast<unsigned char>(bytes[j]));
    }
    std::printf(" %.9g\n", score[i]);
  }
}

int main(int count, char** arguments) {
  tensorflow::DisableXlaCompilation();
  TF_Status* status = TF_NewStatus();
  TF_LoadLibrary(arguments[2], status);
  Require(status, "TF_LoadLibrary");

  TF_Graph* graph = TF_NewGraph();
  TF_Buffer* buffer = TF_NewBuffer();
  const char* tags[] = {"serve"};
  TF_Session* session =
      TF_LoadSessionFromSavedModel(TF_NewSessionOptions(), nullptr, arguments[1], tags,
                                   1, graph, buffer, status);
  Require(status, "TF_LoadSessionFromSavedModel");
  tensorflow::MetaGraphDef meta_graph;
  meta_graph.ParseFromArray(buffer->data, buffer->length);
  const auto& signature = meta_graph.signature_def().at("serving_default");
  const TF_Output inputs[] = {Find(graph, signature.inputs().at("text")),
                              Find(graph, signature.inputs().at("task"))};
  const TF_Output outputs[] = {Find(graph, signature.outputs().at("output_text")),
                               Find(graph, signature.outputs().at("score"))};

  for (int i = 3; i + 1 < count; i += 2) {
    TF_Tensor* given[] = {Strings(Split(arguments[i])),
                          Strings(Split(arguments[i + 1]))};
    TF_Tensor* answers[] = {nullptr, nullptr};
    TF_SessionRun(session, nullptr, inputs, given, 2, outputs, answers, 2, nullptr, 0,
                  nullptr, status);
    if (TF_GetCode(status) == TF_OK) {
      Print(answers[0], answers[1]);
    } else {
      std::printf("error: %s\n", TF_Message(status));
    }
    std::printf("end\n");
  }
  TF_CloseSession(session, status);
  Require(status, "TF_CloseSession");
  return 0;
}
