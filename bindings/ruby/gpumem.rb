# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The module Gpu. The GObject binding of Ruby makes all constructors of a class one overloaded
# method, new(), which cannot distinguish constructors with arguments of the same types. So this
# file also makes each constructor a method of the class: Gpu::Buffer.new_from_bytes(context, :none,
# bytes).

require 'gobject-introspection'

module Gpu
  class Loader < GObjectIntrospection::Loader
    private

    def load_methods_constructor(infos, klass)
      super
      infos.each do |info|
        next if info.name == 'new'

        klass.define_singleton_method(info.name) do |*arguments, &block|
          allocate.tap { |object| object.__send__("initialize_#{info.name}", *arguments, &block) }
        end
      end
    end
  end

  Loader.new(self).load('Gpu')
end
